// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/backend/cpu/step_item.h"
#include "core/plan/block_place.h"
#include "core/rules/rounding.h"

namespace shampoo {

// Rounds the elements of a block when they are stored. Rounding is stochastic if a key selects this and the dtype is
// bfloat16, otherwise to nearest.
class BlockRounding {
 public:
  // Rounds to nearest.
  BlockRounding() = default;

  // OfState() returns the rounding of a state of the block of `item` (key state_rounding). OfParam() returns the
  // rounding of the parameter and the update in this block (key param_rounding). If `item` describes an export of
  // averages instead of a step, OfParam() returns rounding to nearest.
  static BlockRounding OfState(const StepItem& item, RoundedState state) {
    return item.program->settings->state_rounding == Rounding::kStochastic ? BlockRounding(item, state)
                                                                           : BlockRounding();
  }
  static BlockRounding OfParam(const StepItem& item) {
    const bool is_step = item.program->t > 0;
    return is_step && item.program->settings->param_rounding == Rounding::kStochastic
               ? BlockRounding(item, RoundedState::kParam)
               : BlockRounding();
  }

  // Rounds elements [first, first + n) of the block to a dtype, and stores them in contiguous memory. `from` and `to`
  // point to the element `first`.
  template <typename Real>
  void Store(const Real* from, void* to, Dtype dtype, int64_t first, int64_t n) const;
  // Rounds elements [first, first + n) of the block in place. elements[0] is the element `first`. n must be at most
  // kChunkElements.
  template <typename Real>
  void Round(Dtype dtype, Real* elements, int64_t first, int64_t n) const;

 private:
  struct Stochastic {
    BlockPlace place;
    RoundingKey key;
  };

  BlockRounding(const StepItem& item, RoundedState state);

  std::optional<Stochastic> stochastic_;
};

}  // namespace shampoo
