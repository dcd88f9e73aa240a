// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/cpu/part_times.h"
#include "core/backend/cpu/slot_memory.h"
#include "core/base/executor.h"
#include "core/base/memory.h"
#include "core/plan/plan.h"
#include "core/roots/ladder.h"

namespace shampoo {

// Blocks are spread over threads, each block on one thread from its gradient to its update, so that it stays in that
// thread's cache. A thread that finds no block takes tiles of the blocks that others are at; how a block is divided
// follows from its shape, so that its bits do not depend on how many threads there are. Unless the host has set their
// number, as many threads are woken as the work of a call is worth.
class CpuBackend : public Backend {
 public:
  // Allocates all workspace for these blocks.
  static Status Create(const PlanData& plan, const HostExecutor& executor, const HostAllocator& allocator,
                       std::unique_ptr<Backend>* out);

  void InitializeState(const PlanData& plan, char* arena) override;
  void InitializeFactors(const Block& block, InitialInverse initial, char* arena) override;
  void LargestMagnitudes(std::span<const Stretch> stretches, double* largest) override;
  GradientInspection Inspect(const StepItem& item) override;
  double LargestDiagonal(const StateSlot& slot, int64_t d, const char* arena) override;
  void Hash(std::span<const Stretch> stretches, uint64_t* hashes) override;
  void Step(std::span<const StepItem> items, char* arena) override;
  void ApplyExchanged(std::span<const StepItem> items) override;
  void CopyParts(std::span<const PartCopy> copies) override;
  void ApplyParts(std::span<const PartItem> parts) override;
  void PassThrough(const Param& param, const Block* block, const Buffers& buffers, Output output) override;
  double Seconds(StepPart part) const override { return times_.Seconds(part); }

 private:
  CpuBackend() = default;
  // Returns the number of threads for work of the cost that cost() gives (core/plan/cost.h), if there is a choice.
  template <typename Cost>
  int ThreadsFor(const Cost& cost) const;
  template <typename Elements, typename Divisible, typename Work>
  void ForEachElementwise(size_t count, Elements&& elements, Divisible&& divisible, Work&& work);

  std::unique_ptr<Executor> executor_;
  bool chooses_threads_ = false;  // the host has not set their number
  WorkspaceLayout layout_;
  Allocation workspace_;
  RecoveryMemory recovery_;             // at the end of the workspace
  std::vector<blas::Scratch> scratch_;  // by slot
  PartTimes times_;
  bool measures_ = false;
};

}  // namespace shampoo
