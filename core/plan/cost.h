// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/plan/block.h"

namespace shampoo {

// Modelled time of a block's step in arbitrary units, the flops of its factors, contractions and roots: to hand out the
// longest work first.
inline double StepCost(const Block& block) {
  const auto elements = static_cast<double>(block.elements);
  double cost = 20 * elements;
  for (int k = 0; k < block.order(); ++k) {
    const auto d = static_cast<double>(block.shape[k]);
    cost += 3 * elements * d + 10 * d * d * d;
  }
  return cost;
}

// The same for a mean step, roots at every frequency-th: whole numbers, so that all ranks deal blocks out alike.
inline int64_t OwnerCost(const Block& block, int64_t frequency) {
  int64_t cost = 20 * block.elements;
  for (int k = 0; k < block.order(); ++k) {
    const int64_t d = block.shape[k];
    cost += 3 * block.elements * d + 10 * d * d * d / frequency;
  }
  return cost;
}

}  // namespace shampoo
