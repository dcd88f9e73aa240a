// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>

#include "core/plan/cost.h"

namespace shampoo {
namespace {

Block BlockOf(std::initializer_list<int64_t> dims) {
  Block block;
  block.shape = Shape::Of(dims);
  block.elements = block.shape.Product();
  return block;
}

TEST_CASE("a step that is too small for two threads runs on the caller's thread") {
  for (const int max_threads : {1, 2, 8, 4096}) {
    CAPTURE(max_threads);
    CHECK(UsefulThreads(0, max_threads) == 1);
    CHECK(UsefulThreads(kCostOfThread, max_threads) == 1);
    CHECK(UsefulThreads(std::nextafter(2 * kCostOfThread, 0.0), max_threads) == 1);
    CHECK(UsefulThreads(std::nan(""), max_threads) == 1);
  }
}

TEST_CASE("a step uses only as many threads as have enough work and at most max_threads") {
  CHECK(UsefulThreads(2 * kCostOfThread, 8) == 2);
  CHECK(UsefulThreads(3.9 * kCostOfThread, 8) == 3);
  CHECK(UsefulThreads(8 * kCostOfThread, 8) == 8);
  CHECK(UsefulThreads(1e30, 8) == 8);
  CHECK(UsefulThreads(1e30, 1) == 1);
}

TEST_CASE("an ordinary step of a small network uses one thread, and a step that computes roots uses two") {
  int64_t ordinary = 0;
  int64_t roots = 0;
  for (const Block& block :
       {BlockOf({128, 64}), BlockOf({128}), BlockOf({64, 128}), BlockOf({64}), BlockOf({10, 64}), BlockOf({10})}) {
    ordinary += CostOfOrdinaryStep(block);
    roots += CostOfRoots(block);
  }
  CHECK(UsefulThreads(static_cast<double>(ordinary), 2) == 1);
  CHECK(UsefulThreads(static_cast<double>(ordinary + roots), 2) == 2);
}

TEST_CASE("a step of one large block, of many blocks, or of very many tiny blocks uses several threads") {
  CHECK(UsefulThreads(static_cast<double>(CostOfOrdinaryStep(BlockOf({512, 512}))), 4) == 4);
  CHECK(UsefulThreads(static_cast<double>(64 * CostOfOrdinaryStep(BlockOf({128, 128}))), 4) == 4);
  CHECK(UsefulThreads(static_cast<double>(100000 * CostOfOrdinaryStep(BlockOf({4}))), 4) == 4);
}

TEST_CASE("the cost of a step with roots is the sum of the costs of an ordinary step and of the roots") {
  const Block block = BlockOf({30, 20});
  CHECK(CostOfRoots(block) == 10 * (30 * 30 * 30 + 20 * 20 * 20));
  // The cost of the root of an n x n matrix is 4 n^3 if a ResolventSum computes it, otherwise 10 n^3. A ResolventSum
  // computes only inverse square roots in float32, for n >= kMinResolventSize, which is above 7.
  Block square_root = BlockOf({30, 7});
  square_root.root = 2;
  CHECK(CostOfRoots(square_root) == 4 * 30 * 30 * 30 + 10 * 7 * 7 * 7);
  square_root.root_dtype = Dtype::kF64;
  CHECK(CostOfRoots(square_root) == 10 * (30 * 30 * 30 + 7 * 7 * 7));
  CHECK(StepCost(block) == static_cast<double>(CostOfOrdinaryStep(block) + CostOfRoots(block)));
}

}  // namespace
}  // namespace shampoo
