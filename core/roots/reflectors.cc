// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/roots/reflectors.h"

#include <array>

#include "core/blas/blas.h"
#include "core/blas/eigensolver_stages.h"

namespace shampoo {

template <typename Root>
void PreparePanel(const ReflectorPanel<Root>& panel, int64_t ld, const Root* tau) {
  const int64_t k = panel.count;
  for (int64_t i = 0; i < k; ++i) {
    Root* const row = panel.v + i * ld;
    row[panel.first + i] = Root{1};
    std::fill(row + panel.first + i + 1, row + panel.columns, Root{0});
    std::copy(row, row + panel.columns, panel.y + i * ld);
  }
  // Reflector i of the panel is H(i) = I - tau[i] v_i^T v_i, where v_i is row i of V. The product H(0) ... H(k-1) is
  // I - V^T Y with Y = T V, T = D (I + U)^-1 and D = diag(tau). U is the transpose of the strictly lower triangle of
  // D V V^T. This form of T does not divide by tau[i], which may be 0.
  std::array<Root, Reflectors<Root>::kMaxWidth * Reflectors<Root>::kMaxWidth> inner;
  blas::Syrk(false, k, panel.columns, Root{1}, panel.v, ld, Root{0}, inner.data(), k);
  for (int64_t i = 0; i < k; ++i) {
    Root* const row = inner.data() + i * k;
    for (int64_t j = 0; j < i; ++j) row[j] *= tau[i];
  }
  blas::SolveUnitTransposed(k, panel.columns, inner.data(), panel.y, ld);
  for (int64_t i = 0; i < k; ++i) {
    Root* const row = panel.y + i * ld;
    for (int64_t j = 0; j < panel.columns; ++j) row[j] *= tau[i];
  }
}

template <typename Root>
void Reflectors<Root>::Prepare(Tiles* tiles) const {
  ForEachTile(n_ >= kMinTiledSize ? tiles : nullptr, Panels(), [this](int64_t i) {
    const Panel panel = PanelAt(i);
    PreparePanel(panel, n_, tau_ + panel.first);
  });
}

template <typename Root>
void Reflectors<Root>::Apply(Root* z, Root* products, Tiles* tiles) const {
  if (n_ < kMinTiledSize) return ApplyTo(n_, z, products);
  ForEachTile(tiles, (n_ + kTileRows - 1) / kTileRows, [&](int64_t i) {
    const int64_t first = i * kTileRows;
    ApplyTo(std::min(kTileRows, n_ - first), z + first * n_, products + first * Width(n_));
  });
}

template <typename Root>
void Reflectors<Root>::ApplyTo(int64_t rows, Root* z, Root* products) const {
  const blas::Product<Root> onto{false, true, Root{1}, Root{0}};
  const blas::Product<Root> subtract{false, false, Root{-1}, Root{1}};
  for (int64_t i = 0; i < Panels(); ++i) {
    const Panel panel = PanelAt(i);
    blas::Gemm(onto, rows, panel.count, panel.columns, z, n_, panel.v, n_, products, panel.count);
    blas::Gemm(subtract, rows, panel.columns, panel.count, products, panel.count, panel.y, n_, z, n_);
  }
}

template void PreparePanel<float>(const ReflectorPanel<float>&, int64_t, const float*);
template void PreparePanel<double>(const ReflectorPanel<double>&, int64_t, const double*);
template class Reflectors<float>;
template class Reflectors<double>;

}  // namespace shampoo
