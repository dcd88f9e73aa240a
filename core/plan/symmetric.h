// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo {

// How a symmetric d x d state is stored. A factor matrix and its inverse root share one array if they have the same
// dtype and d is at least kPackedFrom. The array has d rows of d + 1 elements: the lower triangle of the factor
// matrix, and to its right the upper triangle of the root. BLAS works on both triangles in place.
enum class SymmetricForm : int8_t {
  kNone,         // the state is not a symmetric matrix
  kSquare,       // d x d, both triangles
  kLower,        // the lower triangle of a factor matrix, in the shared array
  kUpper,        // the upper triangle of an inverse root, in the shared array
  kPackedLower,  // the lower triangle, row after row
  kPackedUpper,  // the upper triangle, row after row
};

// If a factor matrix or inverse root has at least this size, only one of its triangles is stored. From this size on,
// products with a triangle are as fast as those with a full matrix. Below it, products with a full matrix are up to a
// tenth faster, and the second triangle takes little memory. Methods soap and kl_shampoo store one triangle of a factor
// matrix of any size. Snapshots have the form kSquare.
inline constexpr int64_t kPackedFrom = 128;

// The stored elements of one row, which are consecutive.
struct SymmetricRow {
  int64_t first;   // in the state's memory: the index of the first of these elements
  int64_t column;  // in the matrix: the column of the first of these elements
  int64_t count;
};

// Returns the stored elements of a row.
constexpr SymmetricRow RowOf(SymmetricForm form, int64_t d, int64_t row) {
  switch (form) {
    case SymmetricForm::kLower:
      return {row * (d + 1), 0, row + 1};
    case SymmetricForm::kUpper:
      return {row * (d + 1) + row + 1, row, d - row};
    case SymmetricForm::kPackedLower:
      return {row * (row + 1) / 2, 0, row + 1};
    case SymmetricForm::kPackedUpper:
      return {row * d - row * (row - 1) / 2, row, d - row};
    default:
      return {row * d, 0, d};
  }
}

// Returns the number of elements of the array in which a state of this form is stored. A state of form kLower and a
// state of form kUpper share an array.
constexpr int64_t SpanElements(SymmetricForm form, int64_t d) {
  switch (form) {
    case SymmetricForm::kSquare:
      return d * d;
    case SymmetricForm::kLower:
    case SymmetricForm::kUpper:
      return d * (d + 1);
    default:
      return d * (d + 1) / 2;
  }
}

// Returns the number of elements that count as the size of a state of this form. If two states share an array, half
// of the array counts for each state.
constexpr int64_t KeptElements(SymmetricForm form, int64_t d) {
  return form == SymmetricForm::kSquare ? d * d : d * (d + 1) / 2;
}

// Elements (row, column) and (column, row) have the same value. Returns the index of the one in the upper triangle if
// the form is kUpper or kPackedUpper, otherwise the index of the one in the lower triangle.
constexpr int64_t KeptAt(SymmetricForm form, int64_t d, int64_t row, int64_t column) {
  const bool upper = form == SymmetricForm::kUpper || form == SymmetricForm::kPackedUpper;
  if (upper == (row > column)) {
    const int64_t other = row;
    row = column;
    column = other;
  }
  const SymmetricRow kept = RowOf(form, d, row);
  return kept.first + column - kept.column;
}

}  // namespace shampoo
