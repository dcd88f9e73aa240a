// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "core/backend/buffers.h"
#include "core/backend/step_phase.h"
#include "core/plan/block.h"
#include "core/plan/plan.h"
#include "core/plan/shard_layout.h"
#include "core/roots/residual.h"
#include "core/rules/step_program.h"

// Structs that describe work of the CPU backend (a block, a slice, memory to read), and the result of an exact check.
namespace shampoo {

// The step of one block.
struct StepItem {
  const Param* param;
  const Block* block;
  const Buffers* buffers;
  const StepProgram* program;
  RootSchedule schedule;
  RootReport* roots;               // one for each dim; written when roots are refreshed
  int64_t first_root = 0;          // index of roots[0] among the roots of all blocks of the plan
  char* update_skipped = nullptr;  // set to 1 if the update is skipped; parameter and momentum do not change then
  // With several ranks: memory for the update or the new parameter, dense, in the block's exchange_dtype. If the update
  // is skipped, this memory begins with a mark (MarkSkipped). nullptr: the step of the block writes the outputs itself.
  char* exchange = nullptr;
  bool exchange_params = false;  // whether ranks exchange new parameters instead of updates
  bool skip_update = false;      // the step of the block does nothing except report a skipped update
};

// The elements of a block that one shard rank holds. They are stored in one of three places: in the rank's buffer of
// the parameter (held); in memory for an exchange, dense and in block order (packed); or in the whole dense block.
struct SliceOfBlock {
  const Block* block;
  const Region* region;  // the region of the parameter that the rank holds
  int64_t elements;
};
struct SliceCopy {
  enum class Way { kHeldToPacked, kPackedToBlock, kBlockToPacked };
  SliceOfBlock slice;
  Way way;
  const void* from;  // nullptr, with kBlockToPacked: write the mark of a skipped update to the packed slice
  void* to;
  size_t element_bytes;
};
// A slice whose update this rank has received. item.exchange: the packed slice. item.buffers: this rank's buffers.
struct SliceItem {
  StepItem item;
  SliceOfBlock slice;
};

// A buffer or a state of which a step computes the largest magnitude or a hash.
struct MemorySpan {
  const void* data;
  Dtype dtype;
  int64_t elements;
};

// The result of the exact check for one block. The check computes G = gradient_scale * gradient + coupled_decay * W;
// the two factors are in StepProgram.
struct GradientInspection {
  // Index in the caller's buffer of the first NaN or infinity of G or, if there is none, of the largest |G|.
  int64_t element = 0;
  double largest_term = 0;      // the largest of all |gradient_scale * gradient| and |coupled_decay * W|
  double value = 0;             // G at `element`, or the NaN or infinity that the gradient or W has there
  bool param_at_fault = false;  // at `element`, the gradient is finite and W is not
  std::array<double, kMaxDims> slice_square{};  // by dim k: the largest diagonal element of C_k (kronecker.h)
};

}  // namespace shampoo
