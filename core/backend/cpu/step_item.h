// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "core/backend/buffers.h"
#include "core/plan/block.h"
#include "core/plan/plan.h"
#include "core/plan/shard_layout.h"
#include "core/roots/residual.h"
#include "core/rules/step_program.h"

// What the CPU backend is given: lists of blocks, of slices of blocks, and of memory to read.
namespace shampoo {

// The phases of a step whose time can be measured.
enum class StepPhase { kCheck, kFactorUpdate, kRoots, kPreconditioning, kElementwise };
inline constexpr size_t kStepPhaseCount = 5;

// The step of one block.
struct StepItem {
  const Param* param;
  const Block* block;
  const Buffers* buffers;
  const StepProgram* program;
  RootSchedule schedule;
  RootReport* roots;               // one for each dim: written when roots are refreshed
  int64_t first_root = 0;          // the number of the first of them within the plan
  char* update_skipped = nullptr;  // set to 1 if the direction was not usable: parameter and momentum are unchanged
  // With several ranks: where the update, or the new parameter, lies densely in the block's exchange_dtype. A mark in
  // it reports a skipped update. nullptr: the block's own step writes the outputs.
  char* exchange = nullptr;
  bool exchange_params = false;
  bool skip_update = false;  // do nothing except report a skipped update
};

// What one shard rank holds of a block: elements that lie in its buffer of the parameter, or packed in the order of the
// block for an exchange, or in the whole block.
struct SliceOfBlock {
  const Block* block;
  const Region* region;  // what the rank holds of the parameter
  int64_t elements;
};
struct SliceCopy {
  enum class Way { kHeldToPacked, kPackedToBlock, kBlockToPacked };
  SliceOfBlock slice;
  Way way;
  const void* from;  // nullptr: the packed slice gets the mark of a skipped update
  void* to;
  size_t element_bytes;
};
// What was delivered for a slice, packed at item.exchange; item.buffers are those of the holder.
struct SliceItem {
  StepItem item;
  SliceOfBlock slice;
};

// Memory that the check phase reads.
struct MemorySpan {
  const void* data;
  Dtype dtype;
  int64_t elements;
};

// The exact check of the gradient of one block: G = gradient_scale * gradient + coupled_decay * W.
struct GradientInspection {
  int64_t element = 0;          // of the caller's buffer: the first where G is NaN or infinite, otherwise G's largest
  double largest_term = 0;      // the largest |gradient_scale * gradient| and |coupled_decay * W|
  double value = 0;             // G there
  bool param_at_fault = false;  // the gradient is finite there, and W is not
  std::array<double, kMaxDims> slice_square{};  // by dim: the largest diagonal element of C_k
};

}  // namespace shampoo
