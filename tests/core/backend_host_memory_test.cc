// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "core/backend/cpu/host_memory.h"
#include "tests/core/status_check.h"
#include "tests/core/step_fixture.h"

namespace shampoo {
namespace {

struct HostMatrix : StepFixture {
  HostMatrix() : StepFixture("use_merge_dims=false", {{2, 3}}) {}
  std::unique_ptr<StateMemory> Create(void* arena) const {
    std::unique_ptr<StateMemory> memory;
    Ok(HostMemory::Create(plan(), {}, arena, backend(), &memory));
    return memory;
  }
  int64_t OffsetOf(const char* key) const { return EntryOf(key).arena_offset; }
};

TEST_CASE("an arena is allocated unless the caller passes one") {
  const HostMatrix matrix;
  const auto own = matrix.Create(nullptr);
  CHECK(own->allocated_arena());
  CHECK(reinterpret_cast<uintptr_t>(own->arena()) % kArenaAlignment == 0);
  CallerArena caller(matrix.plan().state_bytes());
  const auto borrowed = matrix.Create(caller.data());
  CHECK(!borrowed->allocated_arena());
  CHECK(borrowed->arena() == caller.data());
}

TEST_CASE("if the allocator of the caller returns NULL, creating the state fails") {
  const HostMatrix matrix;
  HostAllocator allocator;
  allocator.allocate = [](void*, size_t, size_t, int32_t, int32_t, void*) -> void* { return nullptr; };
  allocator.deallocate = [](void*, void*, size_t, int32_t, int32_t, void*) {};
  std::unique_ptr<StateMemory> memory;
  CheckError(HostMemory::Create(matrix.plan(), allocator, nullptr, matrix.backend(), &memory), Code::kNoMemory,
             "state");
  CHECK(memory == nullptr);
}

TEST_CASE("Initialize sets counters and moments to zero, and inverse roots to identities") {
  const HostMatrix matrix;
  CallerArena caller(matrix.plan().state_bytes());
  std::memset(caller.data(), 0x55, static_cast<size_t>(matrix.plan().state_bytes()));
  CheckOk(matrix.Create(caller.data())->Initialize(caller.data()));
  const auto element = [&](const char* key, int64_t at) {
    float value = -1;
    std::memcpy(&value, caller.data() + matrix.OffsetOf(key) + 4 * at, sizeof value);
    return value;
  };
  int64_t counter = -1;
  std::memcpy(&counter, caller.data(), sizeof counter);
  CHECK(counter == 0);
  CHECK(element("p0/0/filtered_grad", 5) == 0);
  CHECK(element("p0/0/factor.0", 0) == 0);
  CHECK(element("p0/0/inverse.0", 0) == 1);
  CHECK(element("p0/0/inverse.0", 1) == 0);
}

Settings StartingFrom(InitialInverse initial) {
  Settings settings;
  settings.initial_inverse = initial;
  return settings;
}

TEST_CASE("InitializeFactors resets factor matrices to zero and inverse roots to initial_inverse, and keeps moments") {
  HostMatrix matrix;
  const auto memory = matrix.Create(matrix.state().out());
  float* const inverse = matrix.StateOf("p0/0/inverse.0");
  matrix.StateOf("p0/0/factor.0")[0] = 5;
  matrix.StateOf("p0/0/filtered_grad")[0] = 5;
  CheckOk(memory->InitializeFactors(matrix.plan().blocks[0], StartingFrom(InitialInverse::kZero), memory->arena()));
  CHECK(inverse[0] == 0);
  CheckOk(memory->InitializeFactors(matrix.plan().blocks[0], StartingFrom(InitialInverse::kIdentity), memory->arena()));
  CHECK(inverse[0] == 1);
  CHECK(matrix.StateOf("p0/0/factor.0")[0] == 0);
  CHECK(matrix.StateOf("p0/0/filtered_grad")[0] == 5);
}

TEST_CASE("Upload and Download copy bytes, and Map returns host memory without a copy") {
  const HostMatrix matrix;
  const auto memory = matrix.Create(nullptr);
  const char from[] = "bytes";
  char to[sizeof from] = {};
  CheckOk(memory->Upload(memory->arena(), from, sizeof from));
  CheckOk(memory->Download(to, memory->arena(), sizeof from));
  CHECK(std::string(to) == from);
  CheckOk(memory->Download(memory->arena(), memory->arena(), sizeof from));  // source and destination are the same
  std::vector<char> copy;
  char* mapped = nullptr;
  CheckOk(memory->Map(memory->arena(), sizeof from, &copy, &mapped));
  CHECK(mapped == memory->arena());
  CHECK(copy.empty());
  CHECK(memory->MakeStaging(nullptr) == nullptr);
  CheckOk(memory->CheckReadable("the state"));
}

TEST_CASE("a state in host memory rejects streams and buffers of a device") {
  const HostMatrix matrix;
  const auto memory = matrix.Create(nullptr);
  CheckOk(memory->CheckStream(nullptr));
  CheckError(memory->CheckStream(&matrix), Code::kInvalid, "stream is not NULL");
  CheckOk(memory->CheckBuffer("dst", DeviceType::kCpu));
  CheckError(memory->CheckBuffer("dst", DeviceType::kCuda), Code::kUnsupported, "dst is 2: expected SHAMPOO_CPU (1)");
}

}  // namespace
}  // namespace shampoo
