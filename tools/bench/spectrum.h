// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace bench {

// Returns a dense symmetric n x n matrix with logarithmically spaced eigenvalues from 1e-4 to 1. This takes
// O(n^2 log n) operations. The benchmarks set factor matrices to this matrix before they measure roots. Factor matrices
// that accumulate only a few random gradients would have so few distinct eigenvalues that an eigensolver would be
// unrealistically fast.
std::vector<float> MakeFactor(int64_t n);

}  // namespace bench
