// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo {

// Divides one large operation into tiles that threads without work of their own may take. How an operation is divided
// must follow from its shape alone, never from the number of threads: then its result does not depend on that either.
class Tiles {
 public:
  using Tile = void (*)(void* argument, int64_t i);

  virtual ~Tiles() = default;

  // Calls tile(argument, i) once for every i in [0, count), on this thread and on idle ones; returns when all are done.
  // A tile must not throw.
  virtual void Run(int64_t count, Tile tile, void* argument) = 0;

  template <typename Work>
  void ForEach(int64_t count, const Work& work) {
    if (count <= 1) {  // a small block is full of them
      if (count == 1) work(0);
      return;
    }
    const Work* const target = &work;
    Run(
        count, [](void* argument, int64_t i) { (**static_cast<const Work* const*>(argument))(i); },
        const_cast<const Work**>(&target));
  }
};

// work(i) once for every i in [0, count), on idle threads too where there are tiles and more than one to do.
template <typename Work>
void ForEachTile(Tiles* tiles, int64_t count, const Work& work) {
  if (tiles != nullptr && count > 1) return tiles->ForEach(count, work);
  for (int64_t i = 0; i < count; ++i) work(i);
}

// Products of two numbers from which on an operation is worth dividing, and each part of it to be one.
inline constexpr int64_t kMinParallelProducts = int64_t{1} << 28;

}  // namespace shampoo
