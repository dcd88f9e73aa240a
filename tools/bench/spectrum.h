// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace bench {

// A dense symmetric matrix with eigenvalues from 1e-4 to 1, evenly spaced by their logarithm, in O(n^2 log n): what a
// factor matrix is set to before roots are timed. Factors of a few random gradients have so few distinct eigenvalues
// (those of a vector: two) that an eigensolver is done with them far too soon.
std::vector<float> MakeFactor(int64_t n);

}  // namespace bench
