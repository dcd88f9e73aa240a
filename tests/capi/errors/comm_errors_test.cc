// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "errors_test_util.h"

namespace shampoo_test {
namespace {

struct Calls {
  int gathered = 0;
  int released = 0;
};

// Returns callbacks that only count their calls, for a communicator with one rank.
shampoo_comm_ops OpsOf(Calls* account) {
  shampoo_comm_ops ops = SHAMPOO_COMM_OPS_INIT;
  ops.user = account;
  ops.all_gather = [](void* user, const void*, void*, size_t, void*) -> int32_t {
    ++static_cast<Calls*>(user)->gathered;
    return 0;
  };
  ops.release = [](void* user) { ++static_cast<Calls*>(user)->released; };
  return ops;
}

void CheckRefused(const shampoo_comm_ops& ops, std::initializer_list<std::string> words) {
  auto* const untouched = reinterpret_cast<shampoo_comm*>(uintptr_t{64});
  shampoo_comm* comm = untouched;
  CHECK_ERROR(shampoo_comm_from_ops(&comm, &ops), SHAMPOO_E_INVALID, words);
  CHECK(comm == untouched);
}

TEST_CASE("shampoo_comm_from_ops rejects wrong callbacks without calling release") {
  Calls account;
  const shampoo_comm_ops good = OpsOf(&account);
  shampoo_comm* comm = nullptr;
  CHECK_INVALID(shampoo_comm_from_ops(nullptr, &good), "out is NULL");
  CHECK_INVALID(shampoo_comm_from_ops(&comm, nullptr), "ops is NULL");
  shampoo_comm_ops ops = good;
  ops.all_gather = nullptr;
  CheckRefused(ops, {"ops.all_gather is NULL"});
  ops = good;
  ops.device_type = 7;
  CheckRefused(ops, {"ops.device_type is 7", "SHAMPOO_CPU (1)", "SHAMPOO_CUDA (2)"});
  CHECK(account.released == 0);
  shampoo_comm_destroy(nullptr);
}

TEST_CASE("if the process has no NCCL, creating an NCCL communicator fails") {
  int anything = 0;
  shampoo_comm* comm = nullptr;
  CHECK_INVALID(shampoo_comm_from_nccl(nullptr, &anything, nullptr), "out is NULL");
  CHECK_INVALID(shampoo_comm_from_nccl(&comm, nullptr, nullptr), "nccl_comm is NULL");
  CHECK_ERROR(shampoo_comm_from_nccl(&comm, &anything, nullptr), SHAMPOO_E_STATE, {"libnccl.so.2"});
  CHECK_ERROR(shampoo_comm_from_nccl(&comm, &anything, "libother.so"), SHAMPOO_E_STATE, {"libother.so"});
  CHECK(comm == nullptr);
}

TEST_CASE("an optimizer on the CPU rejects communicators for device memory") {
  Calls account;
  const PlanPtr plan = MakeSmallPlan();
  for (const char* const which : {"replica_comm", "shard_comm"}) {
    shampoo_comm_ops ops = OpsOf(&account);
    ops.device_type = SHAMPOO_CUDA;
    shampoo_comm* comm = nullptr;
    RequireOk(shampoo_comm_from_ops(&comm, &ops));
    shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
    (which == std::string("shard_comm") ? desc.shard_comm : desc.replica_comm) = comm;
    CHECK_ERROR(TryCreate(plan, desc), SHAMPOO_E_UNSUPPORTED, {which, "GPU"});
    shampoo_comm_destroy(comm);
  }
  // Both communicators were rejected before any exchange.
  CHECK(account.gathered == 0);
  CHECK(account.released == 2);
}

TEST_CASE("communicate=params is rejected with output=updates") {
  PlanError("communicate=params output=updates");
  CHECK(MissingWord({"communicate", "params", "output"}) == "");
}

}  // namespace
}  // namespace shampoo_test
