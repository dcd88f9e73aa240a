// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo {

// Copies the lower triangle to the upper one.
template <typename Real>
void Mirror(int64_t n, Real* a) {
  // In tiles, because the upper triangle is written column by column.
  constexpr int64_t kTile = 32;
  for (int64_t row = 0; row < n; row += kTile) {
    const int64_t row_end = row + kTile < n ? row + kTile : n;
    for (int64_t column = 0; column <= row; column += kTile) {
      const int64_t column_end = column + kTile < n ? column + kTile : n;
      for (int64_t i = row; i < row_end; ++i) {
        for (int64_t j = column; j < column_end && j < i; ++j) a[j * n + i] = a[i * n + j];
      }
    }
  }
}

}  // namespace shampoo
