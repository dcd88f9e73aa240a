// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/tiles.h"

namespace shampoo {

// As blas::Syevd, put together from LAPACK's parts: reads the lower triangle of the row-major n x n `a`; on success l
// holds the eigenvalues in rising order and row i of `a` the eigenvector of l[i]. Returns LAPACK's info.
//
// work: blas::EigenWork(n) elements, ints: blas::EigenIntWork(n). tiles: idle threads may take part of the work, each
// of them inside a ScratchUse; nullptr: none. The result does not depend on it.
template <typename Root>
int SolveInStages(int64_t n, Root* a, Root* l, Root* work, int32_t* ints, Tiles* tiles);

}  // namespace shampoo
