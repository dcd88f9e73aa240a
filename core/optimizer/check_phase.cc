// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/optimizer/check_phase.h"

#include <algorithm>
#include <cmath>

#include "core/backend/cpu/magnitude.h"
#include "core/base/convert.h"
#include "core/base/text.h"
#include "core/optimizer/optimizer.h"
#include "core/plan/runs.h"

namespace shampoo {
namespace {

constexpr const char* kWhatToTry =
    "; nothing has changed. Skip this step, or lower the learning rate, clip gradients, or start preconditioning later";

// Whether element `at` of the caller's buffer lies in the block. Strides fall from dim to dim.
bool Contains(const Block& block, int64_t at) {
  int64_t rest = at - block.offset;
  if (rest < 0) return false;
  for (int k = 0; k < block.order(); ++k) {
    if (block.shape[k] == 1) continue;
    const int64_t stride = block.stride[static_cast<size_t>(k)];
    if (rest / stride >= block.shape[k]) return false;
    rest %= stride;
  }
  return rest == 0;
}

Status NonFiniteGradient(const PlanData& plan, const Param& param, const void* grad, int64_t first, int64_t count) {
  const Dtype dtype = param.desc.grad_dtype;
  const int64_t at = first + FindNonFinite(ElementAt(grad, dtype, first), dtype, count);
  double value = 0;
  Widen(ElementAt(grad, dtype, at), dtype, &value, 1);
  std::string name = param.desc.name;
  for (int64_t i = 0; i < param.block_count; ++i) {
    const Block& block = plan.blocks[static_cast<size_t>(param.first_block + i)];
    if (Contains(block, at)) name = BlockName(param, block);
  }
  return Numeric("the gradient of parameter \"", param.desc.name, "\" has ", std::isnan(value) ? "NaN" : "an infinity",
                 " at element ", at, " (block ", name, ")", kWhatToTry);
}

// |scale * G|^2 of a block, in float64.
double SquaredNorm(const Param& param, const Block& block, const void* grad, double scale) {
  double sum = 0;
  ForEachRun(block.shape, block.stride, [&](int64_t from, int64_t, int64_t length) {
    for (int64_t i = 0; i < length; ++i) {
      double value = 0;
      Widen(ElementAt(grad, param.desc.grad_dtype, block.offset + from + i), param.desc.grad_dtype, &value, 1);
      sum += scale * value * (scale * value);
    }
  });
  return sum;
}

// Every element of G G^T is at most |G|^2, so a block passes if that is finite in the computation dtype.
Status CheckOverflow(const PlanData& plan, const Param& param, const void* grad, double scale, double largest) {
  const double magnitude = std::fabs(scale) * largest;
  for (int64_t i = 0; i < param.block_count; ++i) {
    const Block& block = plan.blocks[static_cast<size_t>(param.first_block + i)];
    const double limit = LargestFinite(block.computation);
    // The cheap bound first; a margin for the rounding of sums in the computation dtype.
    if (magnitude * magnitude * static_cast<double>(block.elements) < 0.5 * limit) continue;
    const double square = SquaredNorm(param, block, grad, scale);
    if (square < 0.5 * limit) continue;
    return Numeric("the gradient of parameter \"", param.desc.name,
                   "\" is too large: its factor matrices would overflow ", NameOf(block.computation), " (block ",
                   BlockName(param, block), ", squared norm ", square, ")", kWhatToTry);
  }
  return {};
}

}  // namespace

Status Optimizer::CheckGradients() {
  stretches_.clear();
  stretch_param_.clear();
  for (size_t p = 0; p < plan_->params.size(); ++p) {
    const Param& param = plan_->params[p];
    if (!HasGradient(param)) continue;
    const Dtype dtype = param.desc.grad_dtype;
    for (int64_t first = 0; first < param.elements; first += kScanStretch) {
      stretches_.push_back(
          {ElementAt(buffers_[p].grad, dtype, first), dtype, std::min(kScanStretch, param.elements - first)});
      stretch_param_.push_back(static_cast<int>(p));
    }
  }
  backend_->LargestMagnitudes(stretches_, stretch_largest_.data());
  for (size_t i = 0; i < stretches_.size();) {
    const auto p = static_cast<size_t>(stretch_param_[i]);
    const Param& param = plan_->params[p];
    const void* const grad = buffers_[p].grad;
    double largest = 0;
    for (int64_t first = 0; i < stretches_.size() && stretch_param_[i] == static_cast<int>(p);
         ++i, first += kScanStretch) {
      if (!std::isfinite(stretch_largest_[i])) {
        return NonFiniteGradient(*plan_, param, grad, first, stretches_[i].elements);
      }
      largest = std::max(largest, stretch_largest_[i]);
    }
    const double scale = groups_[static_cast<size_t>(param.desc.group)].settings.gradient_scale;
    SHAMPOO_RETURN_IF_ERROR(CheckOverflow(*plan_, param, grad, scale, largest));
  }
  return {};
}

}  // namespace shampoo
