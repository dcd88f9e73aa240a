// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/shape.h"

#include <limits>

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

std::array<int64_t, kMaxDims> RowMajorStrides(const Shape& shape) {
  std::array<int64_t, kMaxDims> strides{};
  int64_t stride = 1;
  for (int dim = shape.ndim - 1; dim >= 0; --dim) {
    strides[static_cast<size_t>(dim)] = stride;
    stride *= shape[dim];
  }
  return strides;
}

bool CheckedProduct(const Shape& shape, int64_t* product) {
  int64_t result = 1;
  bool fits = true;
  for (const int64_t dim : shape.View()) {
    if (dim == 0) {
      *product = 0;
      return true;
    }
    // No return yet: a dim of 0 may still follow.
    if (result > std::numeric_limits<int64_t>::max() / dim) fits = false;
    if (fits) result *= dim;
  }
  if (fits) *product = result;
  return fits;
}

}  // namespace shampoo
