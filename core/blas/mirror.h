// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo {

// Copies the lower triangle of an n x n matrix to its upper triangle.
template <typename Real>
void Mirror(int64_t n, Real* a) {
  // Transposes one kTile x kTile square at a time in a buffer. Writing whole columns would be slow if the length of a
  // row is a power of two, because the elements of a column then compete for a few sets of the cache.
  constexpr int64_t kTile = 32;
  Real buffer[kTile * kTile];
  for (int64_t row = 0; row < n; row += kTile) {
    const int64_t row_end = row + kTile < n ? row + kTile : n;
    for (int64_t column = 0; column <= row; column += kTile) {
      const int64_t column_end = column + kTile < n ? column + kTile : n;
      for (int64_t i = row; i < row_end; ++i) {
        for (int64_t j = column; j < column_end; ++j) buffer[(j - column) * kTile + (i - row)] = a[i * n + j];
      }
      for (int64_t j = column; j < column_end; ++j) {
        for (int64_t i = column < row ? row : j + 1; i < row_end; ++i) {
          a[j * n + i] = buffer[(j - column) * kTile + (i - row)];
        }
      }
    }
  }
}

}  // namespace shampoo
