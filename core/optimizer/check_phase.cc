// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/optimizer/check_phase.h"

#include <algorithm>
#include <cmath>

#include "core/base/convert.h"
#include "core/base/text.h"
#include "core/optimizer/optimizer.h"

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

Status NonFiniteGradient(const PlanData& plan, const Param& param, int64_t at, double value) {
  std::string name = param.desc.name;
  for (int64_t i = 0; i < param.block_count; ++i) {
    const Block& block = plan.blocks[static_cast<size_t>(param.first_block + i)];
    if (Contains(block, at)) name = BlockName(param, block);
  }
  return Numeric("the gradient of parameter \"", param.desc.name, "\" has ", std::isnan(value) ? "NaN" : "an infinity",
                 " at element ", at, " (block ", name, ")", kWhatToTry);
}

// Every element of G G^T is at most |G|^2, so a block passes if that is finite in the computation dtype.
Status CheckOverflow(Backend* backend, const PlanData& plan, const Param& param, const void* grad, double scale,
                     double largest) {
  const double magnitude = std::fabs(scale) * largest;
  for (int64_t i = 0; i < param.block_count; ++i) {
    const Block& block = plan.blocks[static_cast<size_t>(param.first_block + i)];
    const double limit = LargestFinite(block.computation);
    // The cheap bound first; a margin for the rounding of sums in the computation dtype.
    if (magnitude * magnitude * static_cast<double>(block.elements) < 0.5 * limit) continue;
    const double square = scale * scale * backend->SquaredNorm(param, block, grad);
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
        double value = 0;
        const int64_t at = first + backend_->FindNonFinite(stretches_[i], &value);
        return NonFiniteGradient(*plan_, param, at, value);
      }
      largest = std::max(largest, stretch_largest_[i]);
    }
    const double scale = groups_[static_cast<size_t>(param.desc.group)].CurrentScale();
    SHAMPOO_RETURN_IF_ERROR(CheckOverflow(backend_.get(), *plan_, param, grad, scale, largest));
  }
  return {};
}

}  // namespace shampoo
