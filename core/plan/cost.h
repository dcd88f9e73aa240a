// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/plan/block.h"
#include "core/roots/resolvent_orders.h"
#include "core/rules/schedule.h"

namespace shampoo {

// Modelled time of a block's step in arbitrary units, about the flops of its factors, contractions and roots. One core
// of a Zen 4 does 70 of them in a nanosecond in blocks of order 64 and 128.

// The states, calls and checks of a block of any size: 200 ns for one of 4 elements.
inline constexpr int64_t kCostOfBlock = 10000;
// Elementwise work on one element.
inline constexpr int64_t kCostOfElement = 20;

// Costs are whole numbers, so that all ranks assign blocks alike.

// Returns the cost of a block in a step without roots.
inline int64_t CostOfOrdinaryStep(const Block& block) {
  int64_t cost = kCostOfBlock + kCostOfElement * block.elements;
  for (int k = 0; k < block.factor_count(); ++k) cost += 3 * block.elements * block.shape[k];
  return cost;
}

// Returns the cost of an inverse root per cube of its order d. By eigenvectors it is 10: 9 for the eigendecomposition,
// 1 to put the root together. An inverse square root in float32 needs none, and takes about two fifths of that time.
// The method counts as eigen.
inline int64_t CostOfRootPerCube(const Block& block, int64_t d) {
  const bool by_resolvents =
      block.root == 2 && block.root_dtype == Dtype::kF32 && d >= kLeastByResolvents && d <= kLargestByResolvents;
  return by_resolvents ? 4 : 10;
}

inline int64_t CostOfRoots(const Block& block) {
  int64_t cost = 0;
  for (int k = 0; k < block.factor_count(); ++k) {
    const int64_t d = block.shape[k];
    cost += CostOfRootPerCube(block, d) * d * d * d;
  }
  return cost;
}

// Returns the cost of a block in a step with roots: to hand out the longest work first.
inline double StepCost(const Block& block) {
  return static_cast<double>(CostOfOrdinaryStep(block)) + static_cast<double>(CostOfRoots(block));
}

// Among blocks of at most this cost (a few microseconds) the order does not matter.
inline constexpr double kCostOfSmallBlock = 100000;

// The least work that a thread is woken for: about 100 microseconds. On two processors of a virtual machine (Zen 4) a
// wake-up takes 50 microseconds: 400 microseconds of work took at best 249 on two threads, 200 took 201. Where other
// processes keep the processors busy, a step waits for its second thread: with 20 busy threads on these two processors,
// 100 microseconds of work took 102 in the median, but 15,000 in one of a hundred runs.
inline constexpr double kCostOfThread = 8e6;

// Returns how many threads a step of this cost is worth, the caller's among them: at least 1, at most `most`.
inline int UsefulThreads(double cost, int most) {
  if (!(cost >= 2 * kCostOfThread)) return 1;
  const double threads = cost / kCostOfThread;
  return threads < most ? static_cast<int>(threads) : most;
}

// The steps from the first on over which OwnerCost averages the cost of roots.
inline constexpr int64_t kCostHorizon = 1000;

// Returns the cost of a mean step.
inline int64_t OwnerCost(const Block& block, const RefreshKeys& keys) {
  const int64_t refreshes = std::max<int64_t>(RefreshCount(keys, kCostHorizon), 1);
  return CostOfOrdinaryStep(block) +
         CostOfRoots(block) * refreshes / kCostHorizon;  // below 2^62, as dims are below 2^15
}

}  // namespace shampoo
