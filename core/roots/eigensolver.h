// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/tiles.h"

namespace shampoo {

// Computes an eigendecomposition like blas::Syevd. For large matrices, calls the stages of LAPACK's eigensolver
// separately (core/blas/eigensolver_stages.h). Reads the lower triangle of the row-major n x n matrix `a`. On success,
// `l` holds the eigenvalues in ascending order, and row i of `a` holds the eigenvector of l[i]. Returns LAPACK's info.
//   work   blas::EigenWork(n) elements
//   ints   blas::EigenIntWork(n) elements
//   tiles  lets idle threads help. Each helping thread must hold a blas::ScratchUse. nullptr: no thread helps. The
//          result does not depend on the number of threads.
template <typename Root>
int SolveInStages(int64_t n, Root* a, Root* l, Root* work, int32_t* ints, Tiles* tiles);

}  // namespace shampoo
