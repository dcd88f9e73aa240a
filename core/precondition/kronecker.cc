// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/precondition/kronecker.h"

#include "core/blas/blas.h"

namespace shampoo {
namespace {

// The block as (before, d, after): dim k between the products of the dims on its two sides.
struct Unfolding {
  int64_t before = 1;
  int64_t d = 1;
  int64_t after = 1;
};

Unfolding Unfold(const Shape& shape, int k) {
  Unfolding u;
  for (int i = 0; i < k; ++i) u.before *= shape[i];
  u.d = shape[k];
  for (int i = k + 1; i < shape.ndim; ++i) u.after *= shape[i];
  return u;
}

}  // namespace

template <typename Real>
void UpdateFactor(const Shape& shape, int k, const BlockData<Real>& g, Real keep, Real add, Real* factor) {
  const Unfolding u = Unfold(shape, k);
  if (shape.ndim == 2) {
    const bool columns = k == 1;
    blas::Syrk(columns, u.d, columns ? u.before : u.after, add, g.data, g.ld, keep, factor, u.d);
  } else if (u.after == 1) {
    blas::Syrk(true, u.d, u.before, add, g.data, u.d, keep, factor, u.d);
  } else {
    for (int64_t i = 0; i < u.before; ++i) {
      blas::Syrk(false, u.d, u.after, add, g.data + i * u.d * u.after, u.after, i == 0 ? keep : Real{1}, factor, u.d);
    }
  }
}

template <typename Real>
void ContractDim(const Shape& shape, int k, const BlockData<Real>& in, const Real* x, Real* out) {
  const Unfolding u = Unfold(shape, k);
  if (shape.ndim == 1) {
    blas::Gemv(false, u.d, x, in.data, out);
  } else if (shape.ndim == 2 && k == 0) {
    blas::Gemm(u.d, u.after, u.d, x, u.d, in.data, in.ld, out, u.after);
  } else if (shape.ndim == 2) {
    blas::Gemm(u.before, u.d, u.d, in.data, in.ld, x, u.d, out, u.d);
  } else if (u.after == 1) {
    blas::Gemm(u.before, u.d, u.d, in.data, u.d, x, u.d, out, u.d);
  } else {
    for (int64_t i = 0; i < u.before; ++i) {
      const int64_t slice = i * u.d * u.after;
      blas::Gemm(u.d, u.after, u.d, x, u.d, in.data + slice, u.after, out + slice, u.after);
    }
  }
}

template void UpdateFactor<float>(const Shape&, int, const BlockData<float>&, float, float, float*);
template void UpdateFactor<double>(const Shape&, int, const BlockData<double>&, double, double, double*);
template void ContractDim<float>(const Shape&, int, const BlockData<float>&, const float*, float*);
template void ContractDim<double>(const Shape&, int, const BlockData<double>&, const double*, double*);

}  // namespace shampoo
