// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/tiles.h"

namespace shampoo {

// `count` reflectors from `first` on, which change the first `columns` elements of a vector: v and y have `count` rows.
template <typename Root>
struct ReflectorPanel {
  int64_t first, count, columns;
  Root *v, *y;
};

// Computes y, and writes what Sytrd implies into v. ld: of v and y; tau: of the first reflector of the panel.
template <typename Root>
void PreparePanel(const ReflectorPanel<Root>& panel, int64_t ld, const Root* tau);

// The orthogonal matrix Q = H(n-2) ... H(0) that blas::Sytrd leaves behind, gathered in panels of `width` reflectors:
// the product of a panel is I - V^T Y, row i of V being the vector of reflector i and Y = T V with a triangular T
// (Schreiber and Van Loan's compact WY form, T in the form of Puglisi that needs no recursion). Two matrix products
// apply it, where LAPACK's sormtr takes products with triangles and a transposition of the matrix.
template <typename Root>
class Reflectors {
 public:
  // Widest panel, and eigenvectors in a tile: fixed, as other numbers round differently.
  static constexpr int64_t kMaxWidth = 64;
  static constexpr int64_t kTileRows = 128;
  // Below it a tile is not worth the waking of a thread.
  static constexpr int64_t kMinTiledOrder = 512;
  // A panel's own preparation costs more than wide products gain at small n.
  static constexpr int64_t Width(int64_t n) { return n < 384 ? 32 : kMaxWidth; }

  // v: as Sytrd left it, rows 1 to n - 1 are what is above; y: n x n elements of memory.
  Reflectors(int64_t n, Root* v, const Root* tau, Root* y) : n_(n), v_(v), tau_(tau), y_(y) {}

  // Computes Y, and writes what Sytrd implies into the panels of V.
  void Prepare(Tiles* tiles) const;

  // Row i of z <- Q (row i), for all n rows. products: n * kMaxWidth elements.
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
