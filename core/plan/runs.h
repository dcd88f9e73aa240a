// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "core/plan/shape.h"

namespace shampoo {

// Visits the elements of a strided view in row-major order, one stretch of neighbours at a time:
// visit(offset of the stretch in the viewed tensor, its offset in the dense block, its length).
template <typename Visit>
void ForEachRun(const Shape& shape, const std::array<int64_t, kMaxDims>& stride, Visit&& visit) {
  // Trailing dims that are dense in the view belong to one run.
  int outer = shape.ndim;
  int64_t length = 1;
  while (outer > 0 && (shape[outer - 1] == 1 || stride[static_cast<size_t>(outer - 1)] == length)) {
    length *= shape[--outer];
  }
  std::array<int64_t, kMaxDims> index{};
  int64_t from = 0;
  int64_t dense = 0;
  while (true) {
    visit(from, dense, length);
    dense += length;
    int k = outer - 1;
    while (k >= 0) {
      const auto at = static_cast<size_t>(k);
      from += stride[at];
      if (++index[at] < shape[k]) break;
      from -= stride[at] * shape[k];
      index[at] = 0;
      --k;
    }
    if (k < 0) return;
  }
}

}  // namespace shampoo
