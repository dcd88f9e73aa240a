// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/base/dtype.h"
#include "core/base/host_device.h"
#include "core/rules/step_scalars.h"

// Checks whether the states of a block stay finite in a step. G is gradient_scale * gradient + coupled_decay * W
// (StepScalars), and |G| is the magnitude of an element of G. C_k is G contracted with itself over all dims except k. A
// step adds a multiple of C_k to the factor matrix F_k. The template parameter Block is the Block of the plan or the
// DeviceBlock of the CUDA plugin.
namespace shampoo {

// If a state grows in each step by less than this fraction of its limit, it does not reach the limit in 2^40 steps. The
// check of a step with such a small growth does not read the state.
inline constexpr double kNegligibleGrowth = 1.0 / (int64_t{1} << 40);

// Returns the limit of a sum of products of elements of G, with a margin for rounding in the computation dtype.
constexpr double ProductLimit(Dtype computation) { return 0.5 * LargestFinite(computation); }

// Returns the limit of a state's elements, with a margin for rounding to its dtype.
constexpr double StateLimit(Dtype computation, Dtype state) {
  const double of_state = 0.99 * LargestFinite(state);
  const double of_products = ProductLimit(computation);
  return of_state < of_products ? of_state : of_products;
}

// Returns whether the term weight * C_k fits a factor matrix, where C_k is computed from a gradient that was whitened
// first. square: the sum of the squares of the whitened gradient. Returns false for NaN.
constexpr bool TermFits(double square, double weight, Dtype computation, Dtype factor) {
  return square < ProductLimit(computation) && weight * square < StateLimit(computation, factor) / 2;
}

// Returns the limit of the elements of the inverse root of dim k.
template <typename Block>
constexpr double RootLimit(const Block& block, size_t k) {
  const double of_state = LargestFinite(block.inverse[k].dtype);
  const double of_computation = LargestFinite(block.computation);
  return of_state < of_computation ? of_state : of_computation;
}

// Returns the dtype that |G| itself must fit: the dtype of the filtered gradient if its range is smaller than that of
// the computation dtype, otherwise the computation dtype. The filtered gradient is an average of gradients, so it fits
// its dtype if all gradients fit this dtype.
template <typename Block>
constexpr Dtype ElementDtype(const Block& block) {
  const bool is_narrow =
      block.filtered_grad.present() && LargestFinite(block.filtered_grad.dtype) < LargestFinite(block.computation);
  return is_narrow ? block.filtered_grad.dtype : block.computation;
}

// Returns a bound on |G|; NaN if an argument is NaN. largest_gradient and largest_param: bounds on the magnitudes of
// the elements of the caller's gradient and of W.
constexpr double GradientBound(const StepScalars& step, double largest_gradient, double largest_param) {
  const double scale = step.gradient_scale < 0 ? -step.gradient_scale : step.gradient_scale;
  return scale * largest_gradient + step.coupled_decay * largest_param;
}

// Returns whether all elements of G, and the terms from which they are computed, fit ElementDtype().
//   largest       a bound on |G|
//   largest_term  the largest magnitude of an element of gradient_scale * gradient or coupled_decay * W
template <typename Block>
constexpr bool GradientFits(const Block& block, double largest, double largest_term) {
  const double limit = LargestFinite(ElementDtype(block));
  return largest < limit && largest_term < limit;
}

// Returns how much rounding in the computation dtype may change an element of G. If the two terms of the element
// cancel, their rounding errors may exceed their sum. largest_term: as for GradientFits().
constexpr double GradientRounding(const StepScalars& step, Dtype computation, double largest_term) {
  return step.coupled_decay != 0 ? 4 * MachineEpsilon(computation) * largest_term : 0;
}

// Returns a bound on the sum of the squares of elements of G that a step has rounded. square: the sum of the squares of
// the exact elements. elements: their number. rounding: how much rounding may change an element.
SHAMPOO_HD inline double SquareWithRounding(double square, int64_t elements, double rounding) {
  if (rounding == 0) return square;
  const double norm = std::sqrt(square) + std::sqrt(static_cast<double>(elements)) * rounding;
  return norm * norm;
}

// The state that would overflow in a step: kMoment is V, and kFactor is a factor matrix F_k.
struct GrowthFault {
  enum class State { kNone, kMoment, kFactor };
  State state = State::kNone;
  int dim = 0;                // with kFactor: the dim k of the factor matrix
  bool product_fits = false;  // with kFactor: true if C_k can be computed, but F_k would overflow its dtype
};

// Checks whether decay * state + weight * square fits the dtype of each state.
//
// The type Largest has two members. LargestMoment() returns the largest magnitude in V, and LargestDiagonal(k) that on
// the diagonal of F_k. They are called only if the growth of the state is not negligible (kNegligibleGrowth).
template <typename Block, typename Largest>
class Growth {
 public:
  // has_states: whether the check includes the current states. A rank that does not own a block has no states of the
  // block, so it checks only whether the terms that the gradient adds fit. The owner first makes this check of the
  // terms, too, so that all ranks reject the same gradients.
  SHAMPOO_HD Growth(const StepScalars& step, const Block& block, Largest largest, bool has_states)
      : step_(step), block_(block), largest_(largest), has_states_(has_states) {}

  // Returns whether C_k can be computed. slice_square: a bound on the diagonal elements of C_k.
  SHAMPOO_HD bool ProductFits(double slice_square) const { return slice_square < ProductLimit(block_.computation); }

  // Returns whether V stays finite. element_square: a bound on the squares of the elements of G.
  SHAMPOO_CALLS_BACK SHAMPOO_HD bool MomentFits(double element_square) const {
    if (!block_.moment().present()) return true;
    // A rotation may move the whole norm of G into one element.
    if (block_.is_rotated()) element_square *= static_cast<double>(block_.elements);
    const double added = step_.moment_weight * element_square;
    const double limit = StateLimit(block_.computation, block_.moment().dtype);
    if (!has_states_) return added < limit;
    return added < kNegligibleGrowth * limit || step_.moment_decay * largest_.LargestMoment() + added < limit;
  }

  // Returns whether F_k stays finite. slice_square: as for ProductFits().
  SHAMPOO_CALLS_BACK SHAMPOO_HD bool FactorFits(int k, double slice_square) const {
    const double added = step_.factor_weight * slice_square;
    const double limit = StateLimit(block_.computation, block_.factor[static_cast<size_t>(k)].dtype);
    if (!has_states_) return added < limit;
    return added < kNegligibleGrowth * limit || step_.factor_decay * largest_.LargestDiagonal(k) + added < limit;
  }

  // Returns whether all states stay finite if |G| is at most `largest`, which may be NaN or infinite.
  SHAMPOO_CALLS_BACK SHAMPOO_HD bool CannotOverflow(double largest) const {
    if (!(largest < LargestFinite(ElementDtype(block_)) && MomentFits(largest * largest))) return false;
    for (int k = 0; k < block_.factor_count(); ++k) {
      if (!block_.factor[static_cast<size_t>(k)].present()) continue;
      const int64_t slice = block_.elements / block_.shape[k];
      const double slice_square = largest * largest * static_cast<double>(slice);
      if (!(ProductFits(slice_square) && FactorFits(k, slice_square))) return false;
    }
    return true;
  }

  // Finds the first state that would overflow.
  //   largest          the largest |G|
  //   rounding         see GradientRounding
  //   slice_square(k)  returns the largest element on the diagonal of C_k
  SHAMPOO_CALLS_BACK template <typename SliceSquare>
  SHAMPOO_HD GrowthFault FindFault(double largest, double rounding, const SliceSquare& slice_square) const {
    const double with_rounding = largest + rounding;
    if (!MomentFits(with_rounding * with_rounding)) return {GrowthFault::State::kMoment, 0, false};
    for (int k = 0; k < block_.factor_count(); ++k) {
      if (!block_.factor[static_cast<size_t>(k)].present()) continue;
      const double square = SquareWithRounding(slice_square(k), block_.elements / block_.shape[k], rounding);
      const bool product_fits = ProductFits(square);
      if (!(product_fits && FactorFits(k, square))) return {GrowthFault::State::kFactor, k, product_fits};
    }
    return {};
  }

 private:
  const StepScalars& step_;
  const Block& block_;
  Largest largest_;
  bool has_states_;
};

}  // namespace shampoo
