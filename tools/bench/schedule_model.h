// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace bench {

// A block, and its seconds on one thread.
struct BlockTask {
  std::vector<int64_t> shape;
  double ordinary = 0;  // factor updates, preconditioning and elementwise work
  double roots = 0;     // of all its factors; 0 in an ordinary step
};

// Returns the seconds of a step over these blocks on a number of threads, by a model of the engine:
//
// 1. Threads take whole blocks, the longest first. A thread that has finished a block takes the next one.
// 2. When all blocks have started, idle threads help with blocks in progress, first with the one that has the most
//    work left. A block has these phases, one after another:
//      - all factor updates, at the same time;
//      - all roots, at the same time (in a step with roots);
//      - one product with each inverse.
// 3. A product is split into tiles of at least 256 x 256 outputs. A factor update has one triangle of outputs. The time
//    of a phase is divided by flops: d_k N for the factor of dim k of a block of N elements, 2 d_k N for a product with
//    its inverse, d_k^3 for its root. Elementwise work, a few percent, is counted as part of the products.
// 4. Half of a root of order 512 or more is serial. The other half (back-transformation and the final product) is split
//    into tiles. Smaller roots are not split.
// The model ignores caches, memory and the cost of scheduling: every thread is as fast as a single one.
double Makespan(std::vector<BlockTask> blocks, int threads);

// Returns the total work in seconds of one thread.
double TotalWork(const std::vector<BlockTask>& blocks);

}  // namespace bench
