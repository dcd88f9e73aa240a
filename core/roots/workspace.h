// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/base/tiles.h"
#include "core/blas/blas.h"
#include "core/config/settings.h"
#include "core/roots/resolvent_orders.h"

namespace shampoo {

// Memory for roots of matrices up to n x n. The root itself is put together in it, so that the old inverse survives a
// failure.
template <typename Root>
struct RootWorkspace {
  Root* memory;            // RootElements
  int32_t* ints;           // RootInts
  Tiles* tiles = nullptr;  // idle threads may help with a large matrix

  // Elements of Root that a method needs.
  static int64_t Elements(RootMethod method, int64_t n) {
    // The recovery works in float64, and by eigenvectors.
    const int64_t by_resolvents = std::is_same_v<Root, float> ? ResolventWork(n) : 0;
    const int64_t eigen = n * n + std::max(blas::EigenWork(n), by_resolvents);
    // A coupled iteration that fails is followed by an eigendecomposition.
    return 4 * n + (method == RootMethod::kEigen ? eigen : std::max(eigen, 4 * n * n));
  }
  // What a root without eigenvectors needs beyond the matrix itself (resolvent_root.cc).
  static constexpr int64_t ResolventWork(int64_t n) {
    const int64_t largest = std::min(n, kMaxResolventOrder);
    return n < kMinResolventOrder ? 0 : 2 * largest * largest + 168 * largest + 512;
  }
  static int64_t Ints(int64_t n) { return blas::EigenIntWork(n); }

  // Vectors of n elements, 0 to 3.
  Root* Vector(int i, int64_t n) const { return memory + i * n; }
  // Method eigen: the matrix, and behind it the eigensolver's own memory.
  Root* Matrix(int64_t n) const { return memory + 4 * n; }
  Root* Work(int64_t n) const { return Matrix(n) + n * n; }
  // Coupled methods: matrices 0 to 3.
  Root* Matrix(int i, int64_t n) const { return memory + 4 * n + i * n * n; }
};

}  // namespace shampoo
