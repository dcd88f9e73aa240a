// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo {

// Runs the tiles of one large operation, on this thread and on idle threads. How the caller divides the operation into
// tiles must depend only on the shape of the operation, so that the result does not depend on the number of threads.
class Tiles {
 public:
  using Tile = void (*)(void* argument, int64_t i);

  virtual ~Tiles() = default;

  // Calls tile(argument, i) once for every i in [0, count), on this thread and on idle threads, and returns when all
  // calls have returned. A tile must not throw.
  virtual void Run(int64_t count, Tile tile, void* argument) = 0;

  template <typename Work>
  void ForEach(int64_t count, const Work& work) {
    if (count <= 1) {  // operations on small blocks often have only one tile
      if (count == 1) work(0);
      return;
    }
    const Work* const target = &work;
    Run(
        count, [](void* argument, int64_t i) { (**static_cast<const Work* const*>(argument))(i); },
        const_cast<const Work**>(&target));
  }
};

// Calls work(i) once for every i in [0, count). If `tiles` is not nullptr and count is above 1, idle threads may help.
template <typename Work>
void ForEachTile(Tiles* tiles, int64_t count, const Work& work) {
  if (tiles != nullptr && count > 1) return tiles->ForEach(count, work);
  for (int64_t i = 0; i < count; ++i) work(i);
}

// The number of multiplications that determines which operations are divided into tiles:
// - Contractions (core/backend/cpu/kronecker.cc) and products of method muon (core/roots/orthogonalize.cc) are divided
//   into tiles that have about this many multiplications or more.
// - An update of a matrix C by A A^T or A^T A (core/blas/rank_update.cc) with at least this many multiplications is
//   divided into squares of C of about 512 x 512 elements, unless C has fewer than 1024 rows.
inline constexpr int64_t kMinParallelProducts = int64_t{1} << 28;

}  // namespace shampoo
