// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/at.h"
#include "core/base/text.h"
#include "core/plan/block.h"

namespace shampoo {

// The states of a block that have its shape, by their names.
inline constexpr const char* kElementwiseStates[] = {"filtered_grad", "grafting", "momentum"};

// The state that tells whose factor matrices the roots in use are of, and whether snapshots are waiting.
inline constexpr const char* kSnapshotStep = "snapshot_step";

// One state of a block.
struct BlockState {
  std::string name;
  StateSlot* slot;
  Shape shape;
  bool is_elementwise = false;  // it has the block's shape, and lies over elements of the parameter
};

// Calls visit(state) for every state that a block may have, in the order of its arena. This is the one list of states:
// layout, named entries and checkpoints follow it.
template <typename Visit>
void ForEachState(Block* block, Visit&& visit) {
  const auto square = [&](int k) { return Shape::Of({block->shape[k], block->shape[k]}); };
  for (int k = 0; k < block->factor_count(); ++k) {
    visit(BlockState{Cat("factor.", k), &At(block->factor, k), square(k)});
    visit(BlockState{Cat("inverse.", k), &At(block->inverse, k), square(k)});
  }
  for (int k = 0; k < block->factor_count(); ++k) {
    visit(BlockState{Cat("snapshot.", k), &At(block->snapshot, k), square(k)});
  }
  visit(BlockState{kSnapshotStep, &block->snapshot_step, Shape{}});
  visit(BlockState{"diagonal", &block->diagonal, Shape::Of({int64_t{block->order()}})});
  visit(BlockState{kElementwiseStates[0], &block->filtered_grad, block->shape, true});
  visit(BlockState{kElementwiseStates[1], &block->grafting, block->shape, true});
  visit(BlockState{kElementwiseStates[2], &block->momentum, block->shape, true});
}

}  // namespace shampoo
