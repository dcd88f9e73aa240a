// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/plan/block.h"
#include "core/roots/resolvent_sizes.h"
#include "core/rules/schedule.h"

// Estimates the time of a block's step. The unit is about one floating-point operation of factor updates,
// preconditioning and roots. In blocks of 64 x 64 and 128 x 128, one core of a Zen 4 processor makes 70 such operations
// in a nanosecond. Owners are assigned by integer costs, so that all ranks assign the same owners.
namespace shampoo {

// The part of a block's cost that does not depend on its size: states, calls and checks. A block of 4 elements takes
// 200 ns.
inline constexpr int64_t kCostOfBlock = 10000;
// The cost of the elementwise work on one element.
inline constexpr int64_t kCostOfElement = 20;

// Returns the cost of a block in a step that computes no roots.
inline int64_t CostOfOrdinaryStep(const Block& block) {
  int64_t cost = kCostOfBlock + kCostOfElement * block.elements;
  // The operations for each dim are counted in units of block.elements * block.shape[k]. An update of a factor matrix
  // counts as 1. A product of the block with an inverse root (a contraction) or with an eigenbasis (a rotation) counts
  // as 2. Method shampoo makes an update and a contraction, which count as 3. A method in eigenbases makes an update
  // and two rotations, which count as 5. If such a method uses factor_correction=kl, as kl_shampoo always does, a block
  // of order 2 needs one more contraction for both dims together, so each dim counts as 6.
  for (int k = 0; k < block.factor_count(); ++k) {
    if (!block.has_factor(k)) continue;
    const auto at = static_cast<size_t>(k);
    const int64_t products = !block.basis[at].present() ? 3 : block.kl_scale[at].present() ? 6 : 5;
    cost += products * block.elements * block.shape[k];
  }
  return cost;
}

// Returns the cost of the inverse root or eigenbasis of a d x d matrix, divided by d^3. The cost is that of
// root_method=eigen, even if the group has another root_method. Normally root_method=eigen uses eigenvectors, and the
// result is 10: 9 for the eigendecomposition, and 1 to compute the root from it or to compare an eigenbasis with the
// previous one. For inverse square roots in float32 with kMinResolventSize <= d <= kMaxResolventSize, it uses a sum of
// shifted inverses (core/roots/resolvent.h), which takes about two fifths of the time. The result is then 4.
inline int64_t CostOfRootPerCube(const Block& block, int64_t d) {
  const bool by_resolvents =
      block.root == 2 && block.root_dtype == Dtype::kF32 && d >= kMinResolventSize && d <= kMaxResolventSize;
  return by_resolvents ? 4 : 10;
}

// Returns the cost of computing all inverse roots or eigenbases of a block.
inline int64_t CostOfRoots(const Block& block) {
  int64_t cost = 0;
  for (int k = 0; k < block.factor_count(); ++k) {
    if (!block.has_factor(k)) continue;
    const int64_t d = block.shape[k];
    cost += CostOfRootPerCube(block, d) * d * d * d;
    // The moments are converted to the new eigenbasis.
    if (block.basis[static_cast<size_t>(k)].present()) cost += 4 * block.elements * d;
  }
  return cost;
}

// Returns the cost of a block in a step that computes its roots. Threads take the most expensive blocks first.
inline double StepCost(const Block& block) {
  return static_cast<double>(CostOfOrdinaryStep(block)) + static_cast<double>(CostOfRoots(block));
}

// A block of at most this cost, about two microseconds, counts as small: threads may take small blocks in any sequence.
inline constexpr double kCostOfSmallBlock = 100000;

// The least work of each thread of a step that uses several threads, about 100 microseconds. On two processors of a
// virtual machine (Zen 4), a wake-up takes 50 microseconds. There, two threads finished 400 microseconds of work in 249
// microseconds at best, and 200 microseconds of work in 201 microseconds. If other processes keep the processors busy,
// a step waits for its second thread: with 20 busy threads on these two processors, 100 microseconds of work took 102
// microseconds in the median, but 15,000 microseconds in one of a hundred runs.
inline constexpr double kCostOfThread = 8e6;

// Returns how many threads to use for a step of this cost, including the calling thread: 1 to max_threads.
inline int UsefulThreads(double cost, int max_threads) {
  if (!(cost >= 2 * kCostOfThread)) return 1;
  const double threads = cost / kCostOfThread;
  return threads < max_threads ? static_cast<int>(threads) : max_threads;
}

// OwnerCost averages the cost of roots over this number of steps, from step 1 on.
inline constexpr int64_t kCostHorizon = 1000;

// Returns the average cost of a step of a block. With balance=cost, this cost is the load of the block when owners are
// assigned.
inline int64_t OwnerCost(const Block& block, const RefreshKeys& keys) {
  const int64_t refreshes = std::max<int64_t>(RefreshCount(keys, kCostHorizon), 1);
  return CostOfOrdinaryStep(block) +
         CostOfRoots(block) * refreshes / kCostHorizon;  // below 2^62, because dims are below 2^15
}

}  // namespace shampoo
