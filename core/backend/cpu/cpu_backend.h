// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/backend/cpu/phase_times.h"
#include "core/backend/cpu/slot_memory.h"
#include "core/backend/cpu/step_item.h"
#include "core/base/executor.h"
#include "core/base/memory.h"
#include "core/plan/plan.h"
#include "core/roots/ladder.h"

namespace shampoo {

// Steps blocks on the threads of the host.
//
// Each operation gets a whole list. Blocks are spread over threads, each block on one thread from its gradient to its
// update, so that it stays in that thread's cache. A thread that finds no block takes tiles of the blocks that others
// work on. How a block is divided follows from its shape, so that its bits do not depend on the number of threads.
// Unless the host has set their number, a call wakes as many threads as its work is worth.
class CpuBackend {
 public:
  // Allocates all workspace for the blocks of this rank.
  static Status Create(const PlanData& plan, const HostExecutor& executor, const HostAllocator& allocator,
                       std::unique_ptr<CpuBackend>* out);

  // Sets the states of this rank's blocks as before their first step: zeros, initial inverses, diagonal flags.
  void InitializeState(const PlanData& plan, char* arena);
  // The same for the factor matrices of one block, their inverse roots and diagonal flags alone.
  void InitializeFactors(const Block& block, InitialInverse initial, char* arena);

  // largest[i]: the largest magnitude in span i; NaN if it holds a NaN, infinity if an infinity.
  void LargestMagnitudes(std::span<const MemorySpan> spans, double* largest);
  GradientInspection Inspect(const StepItem& item);
  // Returns the largest element on the diagonal of a d x d matrix.
  double LargestDiagonal(const StateSlot& slot, int64_t d, const char* arena);
  // hashes[i]: of the bytes of span i.
  void Hash(std::span<const MemorySpan> spans, uint64_t* hashes);

  // Makes the step of the items, which are of distinct blocks, sorted by falling cost. Only roots can fail in it.
  void Step(std::span<const StepItem> items, char* arena);
  // Writes the outputs of blocks from what was exchanged for them, and marks the skipped updates.
  void ApplyExchanged(std::span<const StepItem> items);

  // With blocks that are gathered from shards: slices on their way, and outputs from what was delivered, with marks as
  // in ApplyExchanged.
  void CopySlices(std::span<const SliceCopy> copies);
  void ApplySlices(std::span<const SliceItem> slices);

  // Writes the outputs of a parameter (block: nullptr), or of one block, that takes no part in a step: the parameter
  // itself, or updates of zero.
  void PassThrough(const Param& param, const Block* block, const Buffers& buffers, Output output);

  // Thread time of a phase in all steps so far, with track_times.
  double Seconds(StepPhase phase) const { return times_.Seconds(phase); }

 private:
  CpuBackend() = default;
  // Returns the number of threads for work of the cost that cost() gives (core/plan/cost.h), if there is a
  // choice.
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
  PhaseTimes times_;
  bool measures_ = false;
};

}  // namespace shampoo
