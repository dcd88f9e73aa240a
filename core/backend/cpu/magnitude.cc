// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/magnitude.h"

#include <algorithm>
#include <cmath>

#include "core/backend/cpu/strided.h"

namespace shampoo {
GradientInspection InspectGradient(const StepItem& item, double* sums) {
  const Block& block = *item.block;
  const ParamDesc& desc = item.param->desc;
  StridedOperand<double> gradient(item.buffers->grad, desc.grad_dtype, BlockView::Of(block));
  StridedOperand<double> parameter(item.buffers->param, desc.param_dtype, BlockView::Of(block));
  GradientInspection seen;
  double largest = -1;
  bool finite = true;
  int64_t after = 1;
  for (int k = block.order() - 1; k >= 0; --k) {
    const int64_t d = block.shape[k];
    std::fill_n(sums, d, 0.0);
    ForEachChunk({0, block.elements}, [&](int64_t at, int64_t n) {
      const double* const g = gradient.Read(at, n);
      const double* const w = item.program->coupled_decay != 0 ? parameter.Read(at, n) : nullptr;
      for (int64_t i = 0; i < n && finite; ++i) {
        const double term = item.program->gradient_scale * g[i];
        const double decay = w != nullptr ? item.program->coupled_decay * w[i] : 0;
        seen.largest_term = std::max({seen.largest_term, std::fabs(term), std::fabs(decay)});
        double value = term + decay;
        finite = std::isfinite(value) && std::isfinite(g[i]) && (w == nullptr || std::isfinite(w[i]));
        if (!std::isfinite(g[i])) {
          value = g[i];
        } else if (w != nullptr && !std::isfinite(w[i])) {
          value = w[i];
        }
        if (!finite || std::fabs(value) > largest) {
          largest = std::fabs(value);
          seen.element = block.offset + OffsetAt(block.shape, block.stride, at + i);
          seen.value = value;
          seen.param_at_fault = w != nullptr && std::isfinite(g[i]) && !std::isfinite(w[i]);
        }
        sums[(at + i) / after % d] += value * value;
      }
    });
    if (!finite) return seen;
    seen.slice_square[static_cast<size_t>(k)] = *std::max_element(sums, sums + d);
    after *= d;
  }
  return seen;
}

}  // namespace shampoo
