// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "core/plan/shape.h"

namespace shampoo {

// How many neighbours of a strided view are neighbours in memory, too.
inline int64_t RunLength(const Shape& shape, const std::array<int64_t, kMaxDims>& stride) {
  int64_t length = 1;
  for (int k = shape.ndim - 1; k >= 0 && (shape[k] == 1 || stride[static_cast<size_t>(k)] == length); --k) {
    length *= shape[k];
  }
  return length;
}

// Where the element that is `index`-th in row-major order lies in the viewed tensor.
inline int64_t OffsetAt(const Shape& shape, const std::array<int64_t, kMaxDims>& stride, int64_t index) {
  int64_t offset = 0;
  for (int k = shape.ndim - 1; k > 0; --k) {
    offset += index % shape[k] * stride[static_cast<size_t>(k)];
    index /= shape[k];
  }
  return offset + index * stride[0];
}

// Visits elements [begin, end) of a strided view, counted in row-major order, one run of neighbours at a time:
// visit(offset of the run in the viewed tensor, its offset in the dense block, its length).
template <typename Visit>
void ForEachRun(const Shape& shape, const std::array<int64_t, kMaxDims>& stride, int64_t begin, int64_t end,
                Visit&& visit) {
  // Trailing dims that are dense in the view belong to one run.
  int outer = shape.ndim;
  int64_t length = 1;
  while (outer > 0 && (shape[outer - 1] == 1 || stride[static_cast<size_t>(outer - 1)] == length)) {
    length *= shape[--outer];
  }
  if (begin >= end) return;
  std::array<int64_t, kMaxDims> index{};
  int64_t from = 0;
  int64_t rest = begin / length;
  int64_t dense = rest * length;
  for (int k = outer - 1; k >= 0; --k) {
    const auto at = static_cast<size_t>(k);
    index[at] = rest % shape[k];
    rest /= shape[k];
    from += index[at] * stride[at];
  }
  while (true) {
    const int64_t skipped = dense < begin ? begin - dense : 0;
    const int64_t last = dense + length < end ? length : end - dense;
    visit(from + skipped, dense + skipped, last - skipped);
    dense += length;
    if (dense >= end) return;
    for (int k = outer - 1; k >= 0; --k) {
      const auto at = static_cast<size_t>(k);
      from += stride[at];
      if (++index[at] < shape[k]) break;
      from -= stride[at] * shape[k];
      index[at] = 0;
    }
  }
}

}  // namespace shampoo
