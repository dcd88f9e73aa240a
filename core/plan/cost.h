// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "core/plan/block.h"
#include "core/step/schedule.h"

namespace shampoo {

// Modelled time of a block's step in arbitrary units, the flops of its factors, contractions and roots: to hand out the
// longest work first.
inline double StepCost(const Block& block) {
  const auto elements = static_cast<double>(block.elements);
  double cost = 20 * elements;
  for (int k = 0; k < block.factor_count(); ++k) {
    const auto d = static_cast<double>(block.shape[k]);
    cost += 3 * elements * d + 10 * d * d * d;
  }
  return cost;
}

// The steps from the first on over which OwnerCost averages the cost of roots.
inline constexpr int64_t kCostHorizon = 1000;

// The same for a mean step: in whole numbers, so that all ranks assign blocks alike.
inline int64_t OwnerCost(const Block& block, const RefreshKeys& keys) {
  const int64_t refreshes = std::max<int64_t>(RefreshCount(keys, kCostHorizon), 1);
  int64_t cost = 20 * block.elements;
  for (int k = 0; k < block.factor_count(); ++k) {
    const int64_t d = block.shape[k];
    cost += 3 * block.elements * d + 10 * d * d * d * refreshes / kCostHorizon;
  }
  return cost;
}

}  // namespace shampoo
