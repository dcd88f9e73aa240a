// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/cpu/cpu_backend.h"
#include "core/base/memory.h"
#include "core/state/state_memory.h"

namespace shampoo {

// The memory of the arena of an optimizer on the CPU.
class HostMemory final : public StateMemory {
 public:
  // arena: the caller's memory. If it is nullptr, Create() allocates an arena. The plan must outlive this object.
  static Status Create(const PlanData& plan, const HostAllocator& allocator, void* arena,
                       std::shared_ptr<CpuBackend> backend, std::unique_ptr<StateMemory>* out);

  char* arena() const override { return arena_; }
  bool allocated_arena() const override { return arena_ == own_.data(); }
  void UseStream(void* stream) override;
  Status CheckStream(const void* stream) const override;
  Status CheckBuffer(const char* name, DeviceType buffer) const override;
  Status CheckReadable(const std::string& what) const override;
  Status Initialize(char* arena) override;
  Status InitializeFactors(const Block& block, const Settings& settings, char* arena) override;
  Status Download(void* to, const void* from, int64_t bytes) const override;
  Status Upload(void* to, const void* from, int64_t bytes) const override;
  Status Map(char* from, int64_t bytes, std::vector<char>* copy, char** mapped) const override;
  std::unique_ptr<Staging> MakeStaging(void* stream) const override;

 private:
  HostMemory(const PlanData& plan, std::shared_ptr<CpuBackend> backend) : plan_(plan), backend_(std::move(backend)) {}

  const PlanData& plan_;
  std::shared_ptr<CpuBackend> backend_;
  Allocation own_;  // empty if the caller owns the arena
  char* arena_ = nullptr;
};

}  // namespace shampoo
