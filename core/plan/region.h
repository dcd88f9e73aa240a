// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/plan/block.h"
#include "core/plan/runs.h"
#include "core/plan/shape.h"

namespace shampoo {

// Some elements of a row-major tensor: a rectangle, told in as few dims as it can be. What is consecutive in the tensor
// has one dim.
struct Region {
  Shape shape;  // of the tensor, dims merged where the rectangle reaches over all of the inner one
  Shape offset;
  Shape extent;

  // Elements [first, first + count) of a tensor.
  static Region Stretch(int64_t first, int64_t count, int64_t elements);
  // The rectangle at `offset` of shape `extent`. None of the dims of shape may be 0.
  static Region Rectangle(const Shape& shape, const Shape& offset, const Shape& extent);
  // What a description says that one rank holds.
  static Region Of(const ParamDesc& desc);

  int64_t elements() const { return extent.Product(); }
  bool is_stretch() const { return shape.ndim == 1; }
};

// Visits what the region has of elements [first, first + count) of the tensor, a run at a time:
// visit(how many elements after the first, where in the region in row-major order, how many).
template <typename Visit>
void ForEachOverlap(const Region& region, int64_t first, int64_t count, Visit&& visit) {
  const int last = region.shape.ndim - 1;
  const int64_t width = region.shape[last];
  const int64_t from = region.offset[last];
  const int64_t to = from + region.extent[last];
  for (int64_t done = 0; done < count;) {
    int64_t row = (first + done) / width;
    const int64_t column = first + done - row * width;
    const int64_t end = std::min(width, column + count - done);
    // The row's place in the region, if it is in it.
    int64_t local_row = 0;
    int64_t stride = 1;
    bool inside = true;
    for (int k = last - 1; k >= 0; --k) {
      const int64_t index = row % region.shape[k] - region.offset[k];
      inside = inside && index >= 0 && index < region.extent[k];
      local_row += index * stride;
      stride *= region.extent[k];
      row /= region.shape[k];
    }
    const int64_t begin = std::max(column, from);
    const int64_t stop = std::min(end, to);
    if (inside && begin < stop) visit(done + begin - column, local_row * (to - from) + begin - from, stop - begin);
    done += end - column;
  }
}

// How many elements of a strided view of a row-major tensor lie before a position, which counts from the view's first
// element; and of a block before a position of its tensor.
int64_t CountBefore(const Shape& shape, const std::array<int64_t, kMaxDims>& stride, int64_t position);
int64_t CountBefore(const Block& block, int64_t position);
// How many of them the region holds.
int64_t CountIn(const Block& block, const Region& region);

// Visits elements of a block that a region holds, a run at a time: visit(where in the dense block, where in the region,
// how many). They come in the block's order, from the first-th on and count of them; of a region that is no stretch
// only all can be visited.
template <typename Visit>
void ForEachRunIn(const Block& block, const Region& region, int64_t first, int64_t count, Visit&& visit) {
  // Of a stretch of the tensor a block has a stretch of its own order.
  const bool stretch = region.is_stretch();
  const int64_t begin = stretch ? CountBefore(block, region.offset[0]) + first : 0;
  const int64_t end = stretch ? begin + count : block.elements;
  ForEachRun(block.shape, block.tensor_stride, begin, end, [&](int64_t from, int64_t dense, int64_t length) {
    ForEachOverlap(region, block.tensor_offset + from, length,
                   [&](int64_t after, int64_t local, int64_t n) { visit(dense + after, local, n); });
  });
}

}  // namespace shampoo
