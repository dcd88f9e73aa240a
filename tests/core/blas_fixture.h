// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>

#include "core/base/tiles.h"
#include "core/blas/scratch.h"

namespace shampoo {

inline blas::Scratch MakeBlasScratch() {
  blas::Scratch scratch;
  CHECK(blas::Scratch::Create({}, &scratch).ok());
  return scratch;
}

// Provides scratch memory for the BLAS calls of the current thread, as long as the fixture exists.
struct BlasFixture {
  blas::Scratch scratch = MakeBlasScratch();
  blas::ScratchUse use{&scratch};
};

// Runs tiles in reverse order, and records the largest number of tiles in one call of Run().
class ReverseTiles final : public Tiles {
 public:
  void Run(int64_t count, Tile tile, void* argument) override {
    for (int64_t i = count; i-- > 0;) tile(argument, i);
    most = std::max(most, count);
  }
  int64_t most = 0;
};

}  // namespace shampoo
