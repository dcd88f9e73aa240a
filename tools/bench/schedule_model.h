// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace bench {

// The seconds of a block on one thread.
struct BlockTask {
  std::vector<int64_t> shape;
  double ordinary = 0;  // factor updates, preconditioning and elementwise work
  double roots = 0;     // roots of all its factors; 0 in an ordinary step
};

// Returns the seconds that a step of these blocks takes on `threads` threads, by a model of the library's scheduling:
//
// 1. Whole blocks are assigned, the longest first; a thread takes the next one when it is done.
// 2. When no unstarted block is left, idle threads help with the blocks in progress, first with the one that has the
//    most work left. A block has these phases, one after another:
//      - the factor updates of all dims, in parallel;
//      - in a step with roots, the roots of all dims, in parallel;
//      - for each dim in turn, the product with its inverse root.
// 3. A product splits into tiles of at least 256 x 256 outputs; the product of a factor update has one triangle of
//    outputs. The ordinary time of a block of N elements is divided in proportion to flops: d_k N for the factor update
//    of dim k, and 2 d_k N for the product with its inverse root. This includes the elementwise work, which is a few
//    percent. The time of the roots of a block is divided in proportion to d_k^3.
// 4. A root of size 512 or more has a serial half. The other half (back-transformation and rebuild) splits into tiles.
//    Smaller roots do not split.
// The model ignores caches, memory and the cost of assigning work: each of several threads is as fast as a thread that
// runs alone.
double Makespan(std::vector<BlockTask> blocks, int threads);

// Returns the total work, in seconds of one thread.
double TotalWork(const std::vector<BlockTask>& blocks);

}  // namespace bench
