// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/device_element.h"
#include "core/backend/cuda/plugin/kernel_tables.h"

namespace shampoo::cuda {

// A tile of a symmetric d x d matrix: its first row and column, and its numbers of rows and columns. The functions use
// 32-bit divisions, which suffice for the few elements of a tile and are faster than 64-bit divisions.
struct MatrixTile {
  int64_t d, row, column, rows, columns;

  SHAMPOO_DEVICE MatrixTile(const DeviceMatrixTile& tile, int64_t size)
      : d(size), row(tile.row * kMatrixTile), column(tile.column * kMatrixTile) {
    rows = d - row < kMatrixTile ? d - row : kMatrixTile;
    columns = d - column < kMatrixTile ? d - column : kMatrixTile;
  }
  SHAMPOO_DEVICE int64_t elements() const { return rows * columns; }

  // Calls work(row, column) for the elements on and below the diagonal. Neighboring threads get neighboring elements of
  // a row.
  template <typename Work>
  SHAMPOO_DEVICE void ForEachLower(const Cta& cta, const Work& work) const {
    cta.ForEach(elements(), [&](int64_t i) {
      const int64_t r = RowAt(i);
      const int64_t c = ColumnAt(i);
      if (c <= r) work(r, c);
    });
  }
  // Calls work(row, column, load(row, column)) for the elements on and below the diagonal; see Cta::ForEachLoaded.
  template <typename Load, typename Work>
  SHAMPOO_DEVICE void ForEachLowerLoaded(const Cta& cta, const Load& load, const Work& work) const {
    using Loaded = decltype(load(row, column));
    const auto load_lower = [&](int64_t i) {
      const int64_t r = RowAt(i);
      const int64_t c = ColumnAt(i);
      return c <= r ? load(r, c) : Loaded{};
    };
    cta.ForEachLoaded(elements(), load_lower, [&](int64_t i, const Loaded& loaded) {
      const int64_t r = RowAt(i);
      const int64_t c = ColumnAt(i);
      if (c <= r) work(r, c, loaded);
    });
  }
  // Returns the largest term(row, column) of the elements on and below the diagonal.
  template <typename Term>
  SHAMPOO_DEVICE uint64_t LargestOfLower(const Cta& cta, const Term& term) const {
    return cta.Largest(elements(), [&](int64_t i) {
      const int64_t r = RowAt(i);
      const int64_t c = ColumnAt(i);
      return c <= r ? term(r, c) : uint64_t{0};
    });
  }
  // Calls work(row, column) for the mirror images of the elements below the diagonal. Neighboring threads get
  // neighboring elements of a row of the upper triangle.
  template <typename Work>
  SHAMPOO_DEVICE void ForEachUpper(const Cta& cta, const Work& work) const {
    cta.ForEach(elements(), [&](int64_t i) {
      const auto at = static_cast<uint32_t>(i);
      const int64_t r = column + at / static_cast<uint32_t>(rows);
      const int64_t c = row + at % static_cast<uint32_t>(rows);
      if (c > r) work(r, c);
    });
  }
  // Copies the elements of this tile below the diagonal of `matrix` to their mirror images.
  template <typename Real>
  SHAMPOO_DEVICE void Mirror(const Cta& cta, Real* matrix) const {
    ForEachUpper(cta, [&](int64_t r, int64_t c) { matrix[r * d + c] = matrix[c * d + r]; });
  }

 private:
  SHAMPOO_DEVICE int64_t RowAt(int64_t i) const {
    return row + static_cast<uint32_t>(i) / static_cast<uint32_t>(columns);
  }
  SHAMPOO_DEVICE int64_t ColumnAt(int64_t i) const {
    return column + static_cast<uint32_t>(i) % static_cast<uint32_t>(columns);
  }
};

// Computes F <- decay F + weight C for those elements of a tile that are on or below the diagonal of F. factor: the
// factor matrix F, in the form and dtype of `slot`. product: the d x d matrix C, the new product of gradients; only its
// lower triangle is read.
template <typename Real>
SHAMPOO_DEVICE void AverageFactor(const Cta& cta, const MatrixTile& tile, const StateSlot& slot, char* factor,
                                  double decay, double weight, const Real* product) {
  const Real kept_weight = static_cast<Real>(decay);
  const Real new_weight = static_cast<Real>(weight);
  tile.ForEachLower(cta, [&](int64_t r, int64_t c) {
    const int64_t at = KeptAt(slot.form, tile.d, r, c);
    const Real old = ReadAs<Real>(factor, slot.dtype, at);
    WriteAs(factor, slot.dtype, at, NextAverage(kept_weight, old, new_weight, product[r * tile.d + c]));
  });
}

}  // namespace shampoo::cuda
