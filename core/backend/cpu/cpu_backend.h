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

// Makes the steps of blocks on the CPU.
//
// Each operation takes a whole list of blocks and distributes them over threads. One thread works on a block from its
// gradient to its update, so that the block stays in that thread's cache. A thread without a block takes tiles of the
// blocks that other threads work on. The tiles of a block depend only on its shape, so the results do not depend on the
// number of threads. Unless the application has set the number of threads, a call wakes only as many threads as its
// work justifies.
class CpuBackend {
 public:
  // Allocates all workspace for the blocks of this rank.
  static Status Create(const PlanData& plan, const HostExecutor& executor, const HostAllocator& allocator,
                       std::unique_ptr<CpuBackend>* out);

  // Sets the states of this rank's blocks to their values before the first step: initial inverse roots, eigenbases and
  // inverse square roots of eigenvalues, flags that mark factor matrices as diagonal, and zeros in all other states.
  void InitializeState(const PlanData& plan, char* arena);
  // Sets all states of one block, except elementwise states, to their values before the first step. settings: the
  // settings of the block's group.
  void InitializeFactors(const Block& block, const Settings& settings, char* arena);

  // Writes the largest magnitude in span i to largest[i]: NaN if the span contains a NaN, otherwise infinity if it
  // contains an infinity.
  void LargestMagnitudes(std::span<const MemorySpan> spans, double* largest);
  // Makes the exact check of the gradient of one block.
  GradientInspection Inspect(const StepItem& item);
  // Returns the largest element on the diagonal of the d x d state in `slot`; 0 if no element is above 0.
  double LargestDiagonal(const StateSlot& slot, int64_t d, const char* arena);
  // Writes the hash of the bytes of span i to hashes[i].
  void Hash(std::span<const MemorySpan> spans, uint64_t* hashes);

  // Runs the steps of blocks. No block may occur twice. The list should begin with the large blocks, sorted by
  // decreasing cost; small blocks may follow in any order. Only the computation of roots can fail; item.roots reports
  // such failures.
  void Step(std::span<const StepItem> items, char* arena);
  // Computes the outputs of blocks from the data in item.exchange, and writes them. Sets *item.update_skipped to 1 for
  // each block whose owner skipped the update.
  void ApplyExchanged(std::span<const StepItem> items);

  // Copies shard slices of blocks, before or after an exchange between shard ranks (see SliceCopy).
  void CopySlices(std::span<const SliceCopy> copies);
  // Computes outputs from the slices that the owners of blocks have sent, and writes them. Sets *item.update_skipped as
  // ApplyExchanged() does.
  void ApplySlices(std::span<const SliceItem> slices);

  // Moves the averages of weight_ema toward the parameter in blocks that a step does not update. items: these blocks.
  void AgeAverages(std::span<const StepItem> items, char* arena);
  // Exports the averages of blocks (shampoo_optimizer_export). The comment of ExportAverage() (apply_pass.h) describes
  // the output.
  void ExportAverages(std::span<const StepItem> items, char* arena);

  // Writes the outputs of one block that does not take part in a step, or of a whole parameter if `block` is nullptr.
  // The outputs are the unchanged parameter, or an update of zero.
  void PassThrough(const Param& param, const Block* block, const Buffers& buffers, Output output);

  // Returns the seconds that a phase has taken in all steps so far, summed over threads. Without track_times=true,
  // returns 0.
  double Seconds(StepPhase phase) const { return times_.Seconds(phase); }

 private:
  CpuBackend() = default;
  // Returns the number of threads for work that costs cost(), in the unit of core/plan/cost.h. If the application has
  // set the number of threads, returns that number.
  template <typename Cost>
  int ThreadsFor(const Cost& cost) const;
  template <typename Elements, typename Divisible, typename Work>
  void ForEachElementwise(size_t count, Elements&& elements, Divisible&& divisible, Work&& work);

  std::unique_ptr<Executor> executor_;
  bool chooses_threads_ = false;  // the application has not set the number of threads
  WorkspaceLayout layout_;
  Allocation workspace_;
  RecoveryMemory recovery_;             // its memory is in workspace_
  std::vector<blas::Scratch> scratch_;  // one for each slot of executor_ that steps use
  PhaseTimes times_;
  bool measures_ = false;  // the key track_times
};

}  // namespace shampoo
