// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/base/tiles.h"
#include "core/blas/blas.h"
#include "core/config/settings.h"
#include "core/roots/resolvent_sizes.h"

namespace shampoo {

// Memory for roots of matrices up to n x n. A new root is computed in this memory, so the previous root is unchanged if
// the computation fails.
template <typename Root>
struct RootWorkspace {
  Root* memory;            // Elements(method, n) elements
  int32_t* ints;           // Ints(n) elements
  Tiles* tiles = nullptr;  // if set, idle threads may help with a large matrix

  // Returns how many elements of Root a method needs.
  static int64_t Elements(RootMethod method, int64_t n) {
    // Roots without eigenvectors (see resolvent_root.h) are computed only in float32.
    const int64_t by_resolvents = std::is_same_v<Root, float> ? ResolventWork(n) : 0;
    const int64_t eigen = n * n + std::max(blas::EigenWork(n), by_resolvents);
    // If a method other than `eigen` fails, an eigendecomposition uses the same memory.
    return 4 * n + (method == RootMethod::kEigen ? eigen : std::max(eigen, 4 * n * n));
  }
  // Returns an upper bound on the number of elements that a root without eigenvectors needs in addition to the matrix.
  // resolvent_root.cc asserts that the bound suffices.
  static constexpr int64_t ResolventWork(int64_t n) {
    const int64_t largest = std::min(n, kMaxResolventSize);
    return n < kMinResolventSize ? 0 : 2 * largest * largest + 168 * largest + 512;
  }
  static int64_t Ints(int64_t n) { return blas::EigenIntWork(n); }

  // Vectors 0 to 3, of n elements each.
  Root* Vector(int i, int64_t n) const { return memory + i * n; }
  // With method `eigen`, Matrix(n) is the matrix whose root is computed, and Work(n) is the memory of the eigensolver.
  Root* Matrix(int64_t n) const { return memory + 4 * n; }
  Root* Work(int64_t n) const { return Matrix(n) + n * n; }
  // With methods `newton`, `higher_order` and `cans`, i selects one of four matrices, 0 to 3.
  Root* Matrix(int i, int64_t n) const { return memory + 4 * n + i * n * n; }
};

}  // namespace shampoo
