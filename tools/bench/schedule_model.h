// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace bench {

// A block, and the seconds that one thread needs for the block in a step.
struct BlockTask {
  std::vector<int64_t> shape;
  double ordinary = 0;  // factor updates, preconditioning and elementwise work
  double roots = 0;     // inverse roots of all factor matrices; 0 in an ordinary step, which computes no roots
};

// Returns the seconds that a step of these blocks takes on `threads` threads, according to this model of the library's
// scheduling:
//
// 1. Whole blocks are assigned to threads, the longest block first. A thread takes the next block when its current
//    block has no work that can start.
// 2. When all blocks have been started, idle threads help with the blocks in progress, first with the block with the
//    most work left. A block has these phases, one after another:
//      - the factor updates of all dims, in parallel;
//      - in a step with roots, the roots of all dims, in parallel;
//      - for each dim in turn, the product with the inverse root of the dim.
// 3. Factor updates and products split into tiles of at least 256 x 256 outputs (elements of the result). A factor
//    update outputs only one triangle. The ordinary time of a block is divided among its factor updates and products in
//    proportion to flops. For a block of N elements with dims of lengths d_k, the factor update of dim k takes d_k N
//    flops, and the product with inverse root k takes 2 d_k N. The elementwise work is a few percent of the ordinary
//    time and has no separate share. The time of all roots of a block is divided in proportion to d_k^3.
// 4. If the size of a factor matrix is 512 or more, half of the time of its inverse root is serial, and the other half
//    splits into tiles. Smaller roots do not split.
// The model ignores caches, memory and the cost of assigning work: each of several threads is as fast as a thread that
// runs alone.
double Makespan(std::vector<BlockTask> blocks, int threads);

// Returns the total work, in seconds of one thread.
double TotalWork(const std::vector<BlockTask>& blocks);

}  // namespace bench
