// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/backend/buffers.h"
#include "core/plan/block.h"
#include "core/plan/plan.h"
#include "core/plan/shard_layout.h"
#include "core/roots/residual.h"
#include "core/roots/root.h"
#include "core/step/program.h"

namespace shampoo {

// The parts of a step whose time can be measured.
enum class StepPart { kCheck, kFactorUpdate, kRoots, kPreconditioning, kElementwise };
inline constexpr size_t kStepPartCount = 5;

struct RootReport {
  RootOutcome outcome;
  RootResiduals residuals;  // where they are tracked
};

// One block's part of a step.
struct StepItem {
  const Param* param;
  const Block* block;
  const Buffers* buffers;
  const StepProgram* program;
  RootSchedule schedule;
  RootReport* roots;            // one for each dim: written where roots are refreshed
  int64_t first_root = 0;       // the number of the first of them within the plan
  char* stood_still = nullptr;  // set to 1 if the direction could not be used: parameter and momentum are as before
  // With several ranks: where the update, or the new parameter, lies densely in the block's exchange_dtype; it says,
  // too, when the block stood still. nullptr: the block's own step writes the outputs.
  char* exchange = nullptr;
  bool exchange_params = false;
  bool stand = false;  // do nothing but say that the block stands still
};

// What one shard rank holds of a block: elements that lie in its buffer of the parameter, or packed in the order of the
// block for an exchange, or in the block that was brought together.
struct PartOfBlock {
  const Block* block;
  const Region* region;  // what the rank holds of the parameter
  int64_t elements;
};
struct PartCopy {
  enum class Way { kHeldToPacked, kPackedToBlock, kBlockToPacked };
  PartOfBlock part;
  Way way;
  const void* from;  // nullptr: packed is marked as of a block that stands still
  void* to;
  size_t element_bytes;
};
// What was delivered for a part, packed at item.exchange; item.buffers are those of the holder.
struct PartItem {
  StepItem item;
  PartOfBlock part;
};

// A stretch of memory that the check phase looks at.
struct Stretch {
  const void* data;
  Dtype dtype;
  int64_t elements;
};

// What the check phase wants to know of a block whose gradient is doubtful: G = gradient_scale * gradient +
// coupled_decay * W.
struct GradientInspection {
  int64_t element = 0;          // of the caller's buffer: the first where G is NaN or infinite, else G's largest
  double largest_term = 0;      // the largest |gradient_scale * gradient| and |coupled_decay * W|
  double value = 0;             // G there
  bool param_at_fault = false;  // the gradient is finite there, and W is not
  std::array<double, kMaxDims> slice_square{};  // by dim: the largest diagonal element of C_k
};

// What an optimizer does to numbers. Every operation gets whole lists, never one block at a time, so that a backend can
// batch equal shapes, spread blocks over threads, or fill a device.
class Backend {
 public:
  virtual ~Backend() = default;

  // The states of this rank's blocks that have not made a step: zeros, initial inverses, diagonal flags set.
  virtual void InitializeState(const PlanData& plan, char* arena) = 0;
  // The same of the factor matrices of one block, their inverse roots and diagonal flags alone.
  virtual void InitializeFactors(const Block& block, InitialInverse initial, char* arena) = 0;

  // largest[i]: the largest magnitude in stretch i; NaN if it holds a NaN, infinity if an infinity.
  virtual void LargestMagnitudes(std::span<const Stretch> stretches, double* largest) = 0;
  virtual GradientInspection Inspect(const StepItem& item) = 0;
  // The largest element on the diagonal of a d x d matrix.
  virtual double LargestDiagonal(const StateSlot& slot, int64_t d, const char* arena) = 0;

  // hashes[i]: of the bytes of stretch i.
  virtual void Hash(std::span<const Stretch> stretches, uint64_t* hashes) = 0;

  // All of a step for the items, which are of distinct blocks, sorted by falling cost. Nothing in it can fail but
  // roots.
  virtual void Step(std::span<const StepItem> items, char* arena) = 0;

  // The outputs of blocks from what was exchanged for them; a block that did not move is marked as one that stood
  // still.
  virtual void ApplyExchanged(std::span<const StepItem> items) = 0;

  // With blocks that are brought together from shards: parts on their way, and outputs from what was delivered, with
  // marks as ApplyExchanged.
  virtual void CopyParts(std::span<const PartCopy> copies) = 0;
  virtual void ApplyParts(std::span<const PartItem> parts) = 0;

  // The outputs of a parameter (block: nullptr), or of one block, that takes no part in a step: itself, or updates of
  // zero.
  virtual void PassThrough(const Param& param, const Block* block, const Buffers& buffers, Output output) = 0;

  // Thread time of a part in all steps so far, with track_times.
  virtual double Seconds(StepPart part) const = 0;
};

}  // namespace shampoo
