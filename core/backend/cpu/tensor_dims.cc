// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/tensor_dims.h"

#include <algorithm>

#include "core/base/kernels/kernels.h"

namespace shampoo {
namespace {

// Calls work(position of the first element, length, index along dim k) for each run of contiguous elements with the
// same index along dim k, in the order of memory.
template <typename Work>
void ForEachRunAlong(const Shape& shape, int k, Work&& work) {
  int64_t before = 1;
  int64_t after = 1;
  for (int i = 0; i < k; ++i) before *= shape[i];
  for (int i = k + 1; i < shape.ndim; ++i) after *= shape[i];
  for (int64_t b = 0; b < before; ++b) {
    for (int64_t i = 0; i < shape[k]; ++i) work((b * shape[k] + i) * after, after, i);
  }
}

}  // namespace

template <typename Real>
void ScaleDim(const Shape& shape, int k, const Real* scale, Real* tensor) {
  if (k + 1 == shape.ndim) {
    const int64_t d = shape[k];
    const int64_t rows = shape.Product() / d;
    for (int64_t row = 0; row < rows; ++row) BestKernels().Of<Real>().multiply(scale, tensor + row * d, d);
    return;
  }
  ForEachRunAlong(shape, k, [&](int64_t first, int64_t length, int64_t i) {
    BestKernels().Of<Real>().load(scale[i], tensor + first, Real{0}, nullptr, tensor + first, length);
  });
}

template <typename Real>
void SquaresAlong(const Shape& shape, int k, const Real* tensor, double* sums) {
  std::fill(sums, sums + shape[k], 0.0);
  if (k + 1 == shape.ndim) {
    const int64_t d = shape[k];
    const int64_t rows = shape.Product() / d;
    for (int64_t row = 0; row < rows; ++row) BestKernels().Of<Real>().add_squares(tensor + row * d, sums, d);
    return;
  }
  ForEachRunAlong(shape, k, [&](int64_t first, int64_t length, int64_t i) {
    sums[i] += BestKernels().Of<Real>().sum_of_squares(tensor + first, length);
  });
}

template <typename Real>
void PermuteDim(const Shape& shape, int k, const Real* from, const int32_t* order, Real* to) {
  ForEachRunAlong(shape, k, [&](int64_t first, int64_t length, int64_t i) {
    const Real* const source = from + first + (order[i] - i) * length;
    std::copy(source, source + length, to + first);
  });
}

template void ScaleDim<float>(const Shape&, int, const float*, float*);
template void ScaleDim<double>(const Shape&, int, const double*, double*);
template void SquaresAlong<float>(const Shape&, int, const float*, double*);
template void SquaresAlong<double>(const Shape&, int, const double*, double*);
template void PermuteDim<float>(const Shape&, int, const float*, const int32_t*, float*);
template void PermuteDim<double>(const Shape&, int, const double*, const int32_t*, double*);

}  // namespace shampoo
