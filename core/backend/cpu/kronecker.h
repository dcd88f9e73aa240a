// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/tiles.h"
#include "core/plan/shape.h"

// Functions that update a factor matrix, and that multiply a tensor along one dim by an inverse root or an eigenbasis.
// The preconditioner of a block is a Kronecker product of one inverse root for each dim (arXiv 2309.06497, section 2).
// Large products are divided into tiles, which idle threads take; `tiles` may be nullptr. `spare` is working memory for
// as many elements as the tensor has.
namespace shampoo {

// The gradient of a block, or another tensor of the block's shape. A tensor of order 2 may be a view whose rows are
// `ld` elements apart; all other tensors are dense.
template <typename Real>
struct BlockData {
  const Real* data;
  int64_t ld;  // used only for order 2
};

// The form of the matrix X in a contraction: how X is stored, and which index of X is summed over.
enum class MatrixForm {
  kSymmetric,       // symmetric, with both triangles stored
  kSymmetricUpper,  // symmetric, with only the upper triangle stored
  kGeneral,         // the first index of X is summed over: a matrix G becomes X^T G (dim 0) or G X (dim 1)
  kTransposed,      // the second index is summed over: X G or G X^T
};
template <typename Real>
struct MatrixOperand {
  const Real* data;
  int64_t ld;
  MatrixForm form;
};

// Computes F <- decay * F + weight * C_k. C_k (d_k x d_k) is G contracted with itself over all dims except k. For a
// matrix G, C_0 is G G^T and C_1 is G^T G. The rows of `factor` are ld elements apart; only its lower triangle is read
// and written.
template <typename Real>
void UpdateFactor(const Shape& shape, int k, const BlockData<Real>& g, Real decay, Real weight, Real* factor,
                  int64_t ld, Real* spare, Tiles* tiles);

// Contracts `in` along dim k with x (d_k x d_k) and writes a dense tensor of the same shape to `out`.
template <typename Real>
void ContractDim(const Shape& shape, int k, const BlockData<Real>& in, const MatrixOperand<Real>& x, Real* out,
                 Real* spare, Tiles* tiles);

}  // namespace shampoo
