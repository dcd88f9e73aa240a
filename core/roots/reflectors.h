// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/tiles.h"

namespace shampoo {

// A panel of `count` Householder reflectors, beginning with reflector `first`. The reflectors change only the first
// `columns` elements of a vector. v and y point to V and Y of the panel (see Reflectors), which have `count` rows.
template <typename Root>
struct ReflectorPanel {
  int64_t first, count, columns;
  Root *v, *y;
};

// Computes y, and writes into v the zeros and ones that blas::Sytrd does not store. ld: the row stride of v and y.
// tau: points to the tau of the panel's first reflector (see Reflectors).
template <typename Root>
void PreparePanel(const ReflectorPanel<Root>& panel, int64_t ld, const Root* tau);

// The orthogonal matrix Q = H(n-2) ... H(0) that blas::Sytrd returns, in panels of Width(n) reflectors. Reflector i is
// H(i) = I - tau[i] v_i^T v_i with a row vector v_i. For a panel of k reflectors from H(f) on,
// H(f) H(f+1) ... H(f+k-1) = I - V^T Y: row i of V is v_(f+i), and Y is T V with a triangular T. This is the compact WY
// form of Schreiber and Van Loan. T is in Puglisi's form, which needs no recursion. A matrix is multiplied by a panel
// from the right with two matrix products. LAPACK's sormtr instead uses products with triangles and transposes the
// matrix.
template <typename Root>
class Reflectors {
 public:
  // The largest number of reflectors in a panel, and the number of eigenvectors in a tile. They are fixed, because
  // other values would change the rounding.
  static constexpr int64_t kMaxWidth = 64;
  static constexpr int64_t kTileRows = 128;
  // The least n for which idle threads help. For a smaller n, a tile is too little work to wake a thread for it.
  static constexpr int64_t kMinTiledSize = 512;
  // Returns the number of reflectors in a panel. For small n, preparing a wider panel costs more time than it saves.
  static constexpr int64_t Width(int64_t n) { return n < 384 ? 32 : kMaxWidth; }

  // v: the matrix that Sytrd has overwritten; reflector i is in row i + 1. y: n x n elements of memory.
  Reflectors(int64_t n, Root* v, const Root* tau, Root* y) : n_(n), v_(v), tau_(tau), y_(y) {}

  // Calls PreparePanel for every panel. Call this once, before Apply().
  void Prepare(Tiles* tiles) const;

  // Replaces each row r of z by Q r. z: n x n. products: memory for n * kMaxWidth elements.
  void Apply(Root* z, Root* products, Tiles* tiles) const;

 private:
  using Panel = ReflectorPanel<Root>;
  int64_t Panels() const { return (n_ - 1 + Width(n_) - 1) / Width(n_); }
  Panel PanelAt(int64_t i) const {
    const int64_t first = i * Width(n_);
    const int64_t count = std::min(Width(n_), n_ - 1 - first);
    return {first, count, first + count, v_ + (first + 1) * n_, y_ + first * n_};
  }
  void ApplyTo(int64_t rows, Root* z, Root* products) const;

  int64_t n_;
  Root* v_;
  const Root* tau_;
  Root* y_;
};

}  // namespace shampoo
