// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/host_memory.h"

#include <algorithm>

#include "core/plan/memory_layout.h"

namespace shampoo {

Status HostMemory::Create(const PlanData& plan, const HostAllocator& allocator, void* arena,
                          std::shared_ptr<CpuBackend> backend, std::unique_ptr<StateMemory>* out) {
  std::unique_ptr<HostMemory> made(new HostMemory(plan, std::move(backend)));
  made->arena_ = static_cast<char*>(arena);
  if (arena == nullptr) {
    SHAMPOO_RETURN_IF_ERROR(Allocation::Create(allocator, plan.state_bytes(), "state", &made->own_));
    made->arena_ = made->own_.data();
  }
  *out = std::move(made);
  return {};
}

void HostMemory::UseStream(void* /*stream*/) {}

Status HostMemory::CheckStream(const void* stream) const {
  if (stream == nullptr) return {};
  return Invalid("stream is not NULL: expected NULL on the CPU, which has no streams");
}

Status HostMemory::CheckBuffer(const char* name, DeviceType buffer) const {
  if (buffer == DeviceType::kCpu) return {};
  return Unsupported(name, " is ", static_cast<int32_t>(buffer),
                     ": expected SHAMPOO_CPU (1), because the optimizer is on the CPU");
}

Status HostMemory::CheckReadable(const std::string& /*what*/) const { return {}; }

Status HostMemory::Initialize(char* arena) {
  std::fill_n(arena, CounterBytes(static_cast<int64_t>(plan_.groups.size())), char{0});
  backend_->InitializeState(plan_, arena);
  return {};
}

Status HostMemory::InitializeFactors(const Block& block, const Settings& settings, char* arena) {
  backend_->InitializeFactors(block, settings, arena);
  return {};
}

Status HostMemory::Download(void* to, const void* from, int64_t bytes) const {
  if (to != from) std::copy_n(static_cast<const char*>(from), bytes, static_cast<char*>(to));
  return {};
}

Status HostMemory::Upload(void* to, const void* from, int64_t bytes) const { return Download(to, from, bytes); }

Status HostMemory::Map(char* from, int64_t /*bytes*/, std::vector<char>* /*copy*/, char** mapped) const {
  *mapped = from;
  return {};
}

std::unique_ptr<Staging> HostMemory::MakeStaging(void* /*stream*/) const { return nullptr; }

}  // namespace shampoo
