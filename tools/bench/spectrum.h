// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace bench {

// Makes a dense symmetric matrix with eigenvalues from 1e-4 to 1, at equal distances of their logarithm, in O(n^2 log
// n). Factor matrices are set to it before roots are measured. After a few random gradients, they would have so few
// distinct eigenvalues (for a vector, two) that an eigensolver would be unrealistically fast.
std::vector<float> MakeFactor(int64_t n);

}  // namespace bench
