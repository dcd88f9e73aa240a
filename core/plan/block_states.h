// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <type_traits>

#include "core/base/at.h"
#include "core/base/text.h"
#include "core/plan/block.h"

namespace shampoo {

// The second moment of the orthogonalized direction, a state that the key second_moment adds with method muon. In
// contrast, the state "second_moment" is V of method soap or of an elementwise method.
inline constexpr const char* kDirectionMoment = "direction_moment";

// The names of the states that may have one element for each element of the block. If the blocks of a checkpoint differ
// from those of the plan, a load copies these states element by element into the blocks of the plan.
inline constexpr const char* kElementwiseStates[] = {"filtered_grad",  "second_moment", "grafting",      "momentum",
                                                     "iterate_offset", "ema_offset",    kDirectionMoment};

// The names, without a suffix for the dim such as ".0", of the states that are symmetric matrices. Files store only the
// lower triangles.
inline constexpr const char* kFactorState = "factor";
inline constexpr const char* kInverseState = "inverse";
inline constexpr const char* kSnapshotState = "snapshot";
inline constexpr const char* kSymmetricStates[] = {kFactorState, kInverseState, kSnapshotState};

// The state that records the step s whose factor matrices give the newest roots: s if these roots are pending, -s if
// they are in use, and 0 if the block has not used any roots yet (RootTaskOf in core/rules/schedule.h).
inline constexpr const char* kSnapshotStep = "snapshot_step";

// The state that counts the gradients of a block. Only blocks with method soap or kl_shampoo have it.
inline constexpr const char* kGradientCount = "gradient_count";

// With averaging=schedule_free: the state that contains the sum of the weights of iterates.
inline constexpr const char* kLrSum = "lr_sum";

// One state of a block. `Slot` is StateSlot or const StateSlot.
template <typename Slot>
struct BlockState {
  const char* kind;  // the name without the suffix for the dim
  int dim;           // the dim, for a state that exists once for each dim; otherwise -1
  Slot* slot;
  Shape shape;
  bool is_elementwise = false;  // each element of the state belongs to one element of the block

  std::string Name() const { return dim < 0 ? kind : Cat(kind, ".", dim); }
};

// Calls visit(state) for every state that a block may have, in a fixed order, which differs from the order in the
// arena. The state entries of the C API and of checkpoints are derived from this function.
template <typename AnyBlock, typename Visit>
void ForEachState(AnyBlock* block, Visit&& visit) {
  using State = BlockState<std::remove_reference_t<decltype((block->diagonal))>>;
  const auto square = [&](int k) { return Shape::Of({block->shape[k], block->shape[k]}); };
  for (int k = 0; k < block->factor_count(); ++k) {
    visit(State{kFactorState, k, &At(block->factor, k), square(k)});
    visit(State{kInverseState, k, &At(block->inverse, k), square(k)});
  }
  for (int k = 0; k < block->factor_count(); ++k) visit(State{kSnapshotState, k, &At(block->snapshot, k), square(k)});
  for (int k = 0; k < block->factor_count(); ++k) {
    visit(State{"basis", k, &At(block->basis, k), square(k)});
    visit(State{"kl_scale", k, &At(block->kl_scale, k), Shape::Of({block->shape[k]})});
  }
  visit(State{kSnapshotStep, -1, &block->snapshot_step, Shape{}});
  visit(State{"diagonal", -1, &block->diagonal, Shape::Of({int64_t{block->order()}})});
  visit(State{kGradientCount, -1, &block->gradient_count, Shape{}});
  visit(State{"radius", -1, &block->radius, Shape{}});
  visit(State{kLrSum, -1, &block->lr_sum, Shape{}});
  // If a state is stored in eigenbases, its elements do not correspond to elements of the parameter.
  const bool is_elementwise = !block->is_rotated();
  visit(State{kDirectionMoment, -1, &block->direction_moment, block->DirectionMomentShape(),
              block->moment_of_direction == DirectionMoment::kElement});
  visit(State{kElementwiseStates[0], -1, &block->filtered_grad, block->shape, is_elementwise});
  visit(State{kElementwiseStates[1], -1, &block->second_moment, block->shape, is_elementwise});
  visit(State{kElementwiseStates[2], -1, &block->grafting, block->shape, true});
  visit(State{kElementwiseStates[3], -1, &block->momentum, block->shape, true});
  visit(State{kElementwiseStates[4], -1, &block->iterate_offset, block->shape, true});
  visit(State{kElementwiseStates[5], -1, &block->ema_offset, block->shape, true});
}

}  // namespace shampoo
