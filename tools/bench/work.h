// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <cstdint>

#include "core/roots/resolvent_sizes.h"

namespace bench {

// The least work of a phase of a step. For products with a symmetric result, only the flops of one triangle are
// counted. The bytes assume that a phase reads each of its inputs once and writes each of its results once.
struct Work {
  double flops = 0;
  double bytes = 0;
};

// The work of a step that computes the roots of all blocks. A block of N elements with dims of lengths d_k
// adds the work in this table. A block without factor matrices adds only the last two rows.
//   phase             flops                  bytes
//   factor update     sum d_k N              gradient; one triangle of each factor matrix, read and written
//   roots             sum RootFlops(d_k)     -
//   preconditioning   sum 2 d_k N            filtered gradient and direction; each inverse root or eigenbasis
//   elementwise       20 N                   gradient; parameter and the states of its shape, read and written
//   check             -                      gradient
// With eigenbases, the flops of preconditioning and its bytes for the filtered gradient and the direction are doubled.
// With factor_correction=kl, which method kl_shampoo always uses, they are tripled.
// In the rows for factor update and preconditioning, WorkOf() computes N as the product of the sizes of the factor
// matrices. The length of a dim without a factor matrix (keys precondition_dims and skip_dim_size) is not in this
// product. The work is then underestimated.
struct StepWork {
  int64_t parameters = 0;  // elements of all blocks
  int64_t blocks = 0;
  Work check;
  Work factor_update;
  Work roots;
  Work preconditioning;
  Work elementwise;

  // Returns the flops of the products of an ordinary step, which computes no roots.
  double ProductFlops() const { return factor_update.flops + preconditioning.flops; }
};

// Returns the flops of an inverse root of a d x d matrix. square_root: whether the root is an inverse square root in
// float32. With eigenvectors, a root takes about 10 d^3 flops: 9 d^3 for the eigendecomposition and d^3 to build the
// root. An inverse square root in float32 of size 8 to 512 needs no eigenvectors and takes 8/3 d^3 flops: 4/3 d^3 for
// the reduction A = Q T Q^T to a tridiagonal T, and 4/3 d^3 to multiply the root of T by Q and Q^T.
inline double RootFlops(double d, bool square_root) {
  const bool by_resolvents = square_root && d >= static_cast<double>(shampoo::kMinResolventSize) &&
                             d <= static_cast<double>(shampoo::kMaxResolventSize);
  const double per_cube = by_resolvents ? 8.0 / 3 : 10;
  return per_cube * d * d * d;
}

// Returns the work of a step. plan must be finished and have float32 parameters and gradients; optimizer must be
// created from plan. square_roots: the result of UsesSquareRoots() (session.h).
StepWork WorkOf(const shampoo_plan* plan, const shampoo_optimizer* optimizer, bool square_roots);

}  // namespace bench
