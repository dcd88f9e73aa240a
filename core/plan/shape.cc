// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/shape.h"

#include <algorithm>
#include <limits>

#include "core/base/text.h"

namespace shampoo {

Shape Shape::Of(std::span<const int64_t> dims) {
  Shape shape;
  for (const int64_t dim : dims) shape.Append(dim);
  return shape;
}

Shape Shape::Of(std::initializer_list<int64_t> dims) { return Of(std::span(dims.begin(), dims.size())); }

void Shape::Append(int64_t dim) { (*this)[ndim++] = dim; }

int64_t Shape::Product() const {
  int64_t product = 1;
  for (const int64_t dim : View()) product *= dim;
  return product;
}

Shape Shape::DropFront(int count) const { return Of(View().subspan(static_cast<size_t>(count))); }

bool CheckedProduct(const Shape& shape, int64_t* product) {
  int64_t result = 1;
  bool fits = true;
  for (const int64_t dim : shape.View()) {
    if (dim == 0) {
      *product = 0;
      return true;
    }
    // The loop continues, because a dim of 0 may still follow.
    if (result > std::numeric_limits<int64_t>::max() / dim) fits = false;
    if (fits) result *= dim;
  }
  if (fits) *product = result;
  return fits;
}

std::string ShapeText(const Shape& shape) {
  std::string text = "(";
  for (int k = 0; k < shape.ndim; ++k) text += Cat(k == 0 ? "" : ", ", shape[k]);
  return text + ")";
}

std::array<int64_t, kMaxDims> RowMajorStrides(const Shape& shape) {
  std::array<int64_t, kMaxDims> strides{};
  int64_t stride = 1;
  for (int dim = shape.ndim - 1; dim >= 0; --dim) {
    At(strides, dim) = stride;
    stride *= shape[dim];
  }
  return strides;
}

int64_t CountBefore(const Shape& shape, const std::array<int64_t, kMaxDims>& stride, int64_t position) {
  int64_t rest = position;
  int64_t count = 0;
  int64_t inner = shape.Product();
  for (int k = 0; k < shape.ndim && rest > 0; ++k) {
    inner /= shape[k];
    const int64_t whole = std::min(rest / At(stride, k), shape[k]);
    count += whole * inner;
    if (whole == shape[k]) break;
    // The position is in the elements whose index in dim k is `whole`, or in the gap in memory after them.
    rest -= whole * At(stride, k);
  }
  return count;
}

}  // namespace shampoo
