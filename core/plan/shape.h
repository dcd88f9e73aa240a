// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "core/base/at.h"

// Shapes of tensors, and the order in memory of the elements of a strided view.
namespace shampoo {

inline constexpr int kMaxDims = 8;

// The dims of a row-major tensor, outermost first. A scalar has ndim 0 and one element. Entries of `dims` from ndim on
// are 0, so that equal shapes compare equal.
// Unless their comments say otherwise, the functions of core/plan require dims >= 1 whose product fits int64_t.
// Exceptions: CheckedProduct(), ShapeText() and the checks of the caller's shapes (check_plan.h).
struct Shape {
  int ndim = 0;
  std::array<int64_t, kMaxDims> dims{};

  // Returns the shape with these dims, of which there are at most kMaxDims.
  static Shape Of(std::span<const int64_t> dims);
  static Shape Of(std::initializer_list<int64_t> dims);

  int64_t operator[](int dim) const { return At(dims, dim); }
  int64_t& operator[](int dim) { return At(dims, dim); }
  bool operator==(const Shape&) const = default;

  // Adds an innermost dim. Requires ndim < kMaxDims.
  void Append(int64_t dim);

  // Returns the number of elements, which is 1 for a scalar.
  int64_t Product() const;

  // Returns the shape without its first `count` dims. Requires 0 <= count <= ndim.
  Shape DropFront(int count) const;

  std::span<const int64_t> View() const { return {dims.data(), static_cast<size_t>(ndim)}; }
};

// Computes the number of elements of a shape whose dims are >= 0. Returns false and leaves *product unchanged if the
// number exceeds int64_t. If a dim is 0, the product is 0, even if the product of the other dims exceeds int64_t.
bool CheckedProduct(const Shape& shape, int64_t* product);

// Returns the shape as text: "(3, 4, 5)".
std::string ShapeText(const Shape& shape);

// Returns the strides of a dense row-major tensor, in elements. Strides from ndim on are 0.
std::array<int64_t, kMaxDims> RowMajorStrides(const Shape& shape);

// Returns the length of each run of a strided view. A run: consecutive elements that are also consecutive in memory.
inline int64_t RunLength(const Shape& shape, const std::array<int64_t, kMaxDims>& stride) {
  int64_t length = 1;
  for (int k = shape.ndim - 1; k >= 0 && (shape[k] == 1 || At(stride, k) == length); --k) length *= shape[k];
  return length;
}

// Returns the offset in memory of element number `index` in the row-major order of the view.
inline int64_t OffsetAt(const Shape& shape, const std::array<int64_t, kMaxDims>& stride, int64_t index) {
  int64_t offset = 0;
  for (int k = shape.ndim - 1; k > 0; --k) {
    offset += index % shape[k] * At(stride, k);
    index /= shape[k];
  }
  return offset + index * stride[0];
}

// Returns how many elements of a strided view precede a position in memory. position: the distance in elements from the
// first element of the view.
int64_t CountBefore(const Shape& shape, const std::array<int64_t, kMaxDims>& stride, int64_t position);

// Visits elements [begin, end) of a strided view, counted in row-major order, one run of consecutive elements at a
// time: visit(the run's offset in memory, its offset in the row-major order of the view, its length).
template <typename Visit>
void ForEachRun(const Shape& shape, const std::array<int64_t, kMaxDims>& stride, int64_t begin, int64_t end,
                Visit&& visit) {
  // Trailing dims that are dense in memory belong to one run.
  int outer = shape.ndim;
  int64_t length = 1;
  while (outer > 0 && (shape[outer - 1] == 1 || At(stride, outer - 1) == length)) length *= shape[--outer];
  if (begin >= end) return;
  std::array<int64_t, kMaxDims> index{};
  int64_t from = 0;
  int64_t rest = begin / length;
  int64_t dense = rest * length;
  for (int k = outer - 1; k >= 0; --k) {
    At(index, k) = rest % shape[k];
    rest /= shape[k];
    from += At(index, k) * At(stride, k);
  }
  while (true) {
    const int64_t skipped = dense < begin ? begin - dense : 0;
    const int64_t last = dense + length < end ? length : end - dense;
    visit(from + skipped, dense + skipped, last - skipped);
    dense += length;
    if (dense >= end) return;
    for (int k = outer - 1; k >= 0; --k) {
      from += At(stride, k);
      if (++At(index, k) < shape[k]) break;
      from -= At(stride, k) * shape[k];
      At(index, k) = 0;
    }
  }
}

}  // namespace shampoo
