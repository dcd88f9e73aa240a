// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <map>

#include "errors_test_util.h"

namespace shampoo_test {
namespace {

void CheckCreateRefused(const PlanPtr& plan, const shampoo_optimizer_desc& desc, shampoo_status code,
                        std::initializer_list<std::string> words) {
  auto* const untouched = reinterpret_cast<shampoo_optimizer*>(uintptr_t{64});
  shampoo_optimizer* optimizer = untouched;
  CHECK_ERROR(shampoo_optimizer_create(&optimizer, plan.get(), &desc), code, words);
  CHECK(optimizer == untouched);
}

// The user struct of a test allocator, with a record of the allocations. Calls of Allocate() are numbered from 0. The
// call with the number fail_at fails, and the call with the number misalign_at returns a misaligned pointer.
struct Account {
  int fail_at = -1;      // -1: no call fails
  int misalign_at = -1;  // -1: all returned pointers are aligned
  int calls = 0;
  int released = 0;
  std::map<void*, std::pair<void*, size_t>> allocated;  // by returned pointer: the pointer to free, and the size
};

void* Allocate(void* user, size_t bytes, size_t align, int32_t, int32_t, void*) {
  auto* const account = static_cast<Account*>(user);
  const int call = account->calls++;
  if (call == account->fail_at) return nullptr;
  char* const start = static_cast<char*>(std::aligned_alloc(align, (bytes / align + 2) * align));
  char* const handed = start + (call == account->misalign_at ? 8 : 0);
  account->allocated[handed] = {start, bytes};
  return handed;
}

void Deallocate(void* user, void* ptr, size_t bytes, int32_t, int32_t, void*) {
  auto* const account = static_cast<Account*>(user);
  const auto found = account->allocated.find(ptr);
  REQUIRE(found != account->allocated.end());
  CHECK(found->second.second == bytes);
  std::free(found->second.first);
  account->allocated.erase(found);
}

shampoo_allocator AllocatorOf(Account* account) {
  shampoo_allocator allocator = SHAMPOO_ALLOCATOR_INIT;
  allocator.user = account;
  allocator.allocate = Allocate;
  allocator.deallocate = Deallocate;
  allocator.release = [](void* user) { ++static_cast<Account*>(user)->released; };
  return allocator;
}

TEST_CASE("shampoo_optimizer_create rejects NULL and names the argument in the error") {
  const PlanPtr plan = MakeSmallPlan();
  const shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  shampoo_optimizer* optimizer = nullptr;
  CHECK_INVALID(shampoo_optimizer_create(nullptr, plan.get(), &desc), "out is NULL");
  CHECK_INVALID(shampoo_optimizer_create(&optimizer, nullptr, &desc), "plan is NULL");
  CHECK_INVALID(shampoo_optimizer_create(&optimizer, plan.get(), nullptr), "desc is NULL");
  CHECK(optimizer == nullptr);
  shampoo_optimizer_destroy(nullptr);
}

TEST_CASE("shampoo_optimizer_create rejects unsupported devices and streams") {
  const PlanPtr plan = MakeSmallPlan();
  const shampoo_optimizer_desc good = SHAMPOO_OPTIMIZER_DESC_INIT;
  shampoo_optimizer_desc desc = good;
  desc.device_type = 3;
  CheckCreateRefused(plan, desc, SHAMPOO_E_UNSUPPORTED, {"device_type is 3", "SHAMPOO_CPU (1)", "SHAMPOO_CUDA (2)"});
  desc.device_type = SHAMPOO_CUDA;
  CheckCreateRefused(plan, desc, SHAMPOO_E_INVALID, {"device_type is SHAMPOO_CUDA (2)", "plan is SHAMPOO_CPU (1)"});
  int memory = 0;
  desc = good;
  desc.stream = &memory;
  CheckCreateRefused(plan, desc, SHAMPOO_E_INVALID, {"stream is not NULL"});
  for (const int32_t device : {1, -1}) {
    desc = good;
    desc.device_id = device;
    CheckCreateRefused(plan, desc, SHAMPOO_E_INVALID, {"device_id is " + Text(device), "0"});
  }
}

TEST_CASE("the caller's arena must be large enough and aligned") {
  const PlanPtr plan = MakeSmallPlan();
  int64_t bytes = 0;
  RequireOk(shampoo_plan_bytes(plan.get(), 0, "state", &bytes));
  const auto size = static_cast<size_t>(bytes);
  std::vector<char> memory(size + 512, char{17});
  char* const aligned = memory.data() + (256 - reinterpret_cast<uintptr_t>(memory.data()) % 256);
  const std::vector<char> before = memory;
  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  desc.state = aligned;
  desc.state_bytes = size - 1;
  CheckCreateRefused(plan, desc, SHAMPOO_E_INVALID, {"state_bytes is " + Text(size - 1), Text(size)});
  desc.state_bytes = 0;
  CheckCreateRefused(plan, desc, SHAMPOO_E_INVALID, {"state_bytes is 0", Text(size)});
  desc.state_bytes = size;
  desc.state = aligned + 32;
  CheckCreateRefused(plan, desc, SHAMPOO_E_INVALID, {"state is not aligned", "64"});
  CHECK(memory == before);
}

TEST_CASE(
    "if the allocator lacks allocate or deallocate, or the executor lacks parallel_for or threads, creation fails") {
  const PlanPtr plan = MakeSmallPlan();
  Account account;
  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  shampoo_allocator allocator = AllocatorOf(&account);
  desc.allocator = &allocator;
  allocator.allocate = nullptr;
  CheckCreateRefused(plan, desc, SHAMPOO_E_INVALID, {"allocator.allocate is NULL"});
  allocator = AllocatorOf(&account);
  allocator.deallocate = nullptr;
  CheckCreateRefused(plan, desc, SHAMPOO_E_INVALID, {"allocator.deallocate is NULL"});

  static int executor_released = 0;
  shampoo_executor executor = SHAMPOO_EXECUTOR_INIT;
  executor.release = [](void*) { ++executor_released; };
  executor.threads = 2;
  desc.allocator = nullptr;
  desc.executor = &executor;
  CheckCreateRefused(plan, desc, SHAMPOO_E_INVALID, {"executor.parallel_for is NULL"});
  executor.parallel_for = [](void*, void (*task)(void*, int64_t), void* argument, int64_t count) {
    for (int64_t i = 0; i < count; ++i) task(argument, i);
  };
  for (const int32_t threads : {0, -1}) {
    executor.threads = threads;
    CheckCreateRefused(plan, desc, SHAMPOO_E_INVALID, {"executor.threads is " + Text(threads), "at least 1"});
  }
  CHECK(account.calls == 0);
  CHECK(account.released == 0);
  CHECK(executor_released == 0);
}

TEST_CASE(
    "shampoo_optimizer_create frees all memory and does not call release if an allocation fails or is misaligned") {
  const PlanPtr plan = MakeSmallPlan();
  Account whole;
  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  shampoo_allocator allocator = AllocatorOf(&whole);
  desc.allocator = &allocator;
  shampoo_optimizer* optimizer = nullptr;
  RequireOk(shampoo_optimizer_create(&optimizer, plan.get(), &desc));
  shampoo_optimizer_destroy(optimizer);
  CHECK(whole.allocated.empty());
  CHECK(whole.released == 1);
  REQUIRE(whole.calls > 1);
  for (int call = 0; call < whole.calls; ++call) {
    Account failing;
    failing.fail_at = call;
    allocator = AllocatorOf(&failing);
    CheckCreateRefused(plan, desc, SHAMPOO_E_NOMEM, {"bytes", "shampoo_allocator", "shampoo_plan_bytes"});
    CHECK(failing.calls == call + 1);
    CHECK(failing.allocated.empty());
    CHECK(failing.released == 0);
    Account misaligned;
    misaligned.misalign_at = call;
    allocator = AllocatorOf(&misaligned);
    CheckCreateRefused(plan, desc, SHAMPOO_E_INVALID, {"shampoo_allocator", "not aligned", "256"});
    CHECK(misaligned.allocated.empty());
    CHECK(misaligned.released == 0);
  }
}

}  // namespace
}  // namespace shampoo_test
