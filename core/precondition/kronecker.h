// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/tiles.h"
#include "core/plan/shape.h"

namespace shampoo {

// The gradient of a block, or any tensor of its shape. Tensors of order 2 may be views with rows `ld` apart; all others
// are dense.
template <typename Real>
struct BlockData {
  const Real* data;
  int64_t ld;  // order 2 only
};

// A symmetric matrix that a tensor is contracted with: both triangles, or the upper one.
template <typename Real>
struct SymmetricOperand {
  const Real* data;
  int64_t ld;
  bool full;
};

// The preconditioner of Shampoo is a Kronecker product of one inverse root for each dim of a block (arXiv 2309.06497,
// section 2). Both parts of it hand out tiles of large products to idle threads; tiles may be nullptr.

// spare: memory for as many elements as the tensor has; used for a dim between others.

// F <- keep * F + add * C_k, where C_k (d_k x d_k) is G contracted with itself over all dims but k (for a matrix G G^T
// and G^T G). factor: rows ld apart, of which the lower triangle is read and written.
template <typename Real>
void UpdateFactor(const Shape& shape, int k, const BlockData<Real>& g, Real keep, Real add, Real* factor, int64_t ld,
                  Real* spare, Tiles* tiles);

// out (dense, of the same shape) = in contracted along dim k with x (d_k x d_k).
template <typename Real>
void ContractDim(const Shape& shape, int k, const BlockData<Real>& in, const SymmetricOperand<Real>& x, Real* out,
                 Real* spare, Tiles* tiles);

}  // namespace shampoo
