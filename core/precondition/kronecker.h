// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/plan/shape.h"

namespace shampoo {

// A block's elements in row-major order of its shape. Order 2 may have a row stride of its own (ld >= columns: a view
// into a larger matrix); every other order is dense.
template <typename Real>
struct BlockData {
  const Real* data;
  int64_t ld;  // order 2: elements between rows
};

// Paper, algorithm 2: F_k <- keep * F_k + add * C_k, where C_k is G contracted with itself over all dims but k (for a
// matrix G G^T and G^T G). factor: d_k x d_k, the lower triangle is read and written.
template <typename Real>
void UpdateFactor(const Shape& shape, int k, const BlockData<Real>& g, Real keep, Real add, Real* factor);

// out (dense, of the same shape) = in contracted along dim k with the symmetric matrix x (d_k x d_k, full).
template <typename Real>
void ContractDim(const Shape& shape, int k, const BlockData<Real>& in, const Real* x, Real* out);

}  // namespace shampoo
