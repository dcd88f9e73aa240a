// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include <algorithm>
#include <cstdlib>

#include "view.h"

namespace {

constexpr int64_t kTile = 32;  // rows and columns of a tile, so that tiles of source and target fit in the L1 cache

// A two-dimensional copy: the numbers of rows and columns, and the strides of source and target in bytes.
struct Plane {
  int64_t rows, columns;
  int64_t source_row, source_column;
  int64_t target_row, target_column;
};

template <int kBytes>
void CopyPlane(const Plane& plane, const char* source, char* target) {
  for (int64_t row = 0; row < plane.rows; row += kTile) {
    const int64_t row_end = std::min(row + kTile, plane.rows);
    for (int64_t column = 0; column < plane.columns; column += kTile) {
      const int64_t column_end = std::min(column + kTile, plane.columns);
      for (int64_t i = row; i < row_end; ++i) {
        for (int64_t j = column; j < column_end; ++j) {
          memcpy(target + i * plane.target_row + j * plane.target_column,
                 source + i * plane.source_row + j * plane.source_column, kBytes);
        }
      }
    }
  }
}

}  // namespace

void CopyElements(const View& view, char* target) {
  const int size = ElementSize(view.dtype);
  int64_t target_strides[8] = {};
  int64_t bytes = size;
  for (int k = view.ndim - 1; k >= 0; --k) {
    target_strides[k] = bytes;
    bytes *= view.shape[k];
  }
  if (bytes == 0) return;
  // The column index of a plane is the index in the last dim. The row index is the index in the dim `other`. Among the
  // earlier dims that are longer than 1, `other` is the dim whose source stride has the smallest magnitude.
  const int last = view.ndim - 1;
  int other = -1;
  for (int k = 0; k < last; ++k) {
    const bool is_closer = other < 0 || std::llabs(view.strides[k]) < std::llabs(view.strides[other]);
    if (view.shape[k] > 1 && is_closer) other = k;
  }
  Plane plane = {1, 1, 0, 0, 0, 0};
  if (last >= 0) {
    plane.columns = view.shape[last];
    plane.source_column = view.strides[last];
    plane.target_column = target_strides[last];
  }
  if (other >= 0) {
    plane.rows = view.shape[other];
    plane.source_row = view.strides[other];
    plane.target_row = target_strides[other];
  }
  int64_t index[8] = {};
  const auto* source = static_cast<const char*>(view.data);
  for (;;) {
    size == 8   ? CopyPlane<8>(plane, source, target)
    : size == 4 ? CopyPlane<4>(plane, source, target)
                : CopyPlane<2>(plane, source, target);
    int k = last - 1;
    for (; k >= 0; --k) {
      if (k == other) continue;
      source += view.strides[k];
      target += target_strides[k];
      if (++index[k] < view.shape[k]) break;
      source -= view.strides[k] * view.shape[k];
      target -= target_strides[k] * view.shape[k];
      index[k] = 0;
    }
    if (k < 0) return;
  }
}
