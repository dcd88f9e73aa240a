// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/phases.h"

#include <algorithm>

namespace shampoo {
namespace {

double RootCost(const Block& block) {
  double cost = 0;
  for (int k = 0; k < block.factor_count(); ++k) {
    const auto d = static_cast<double>(block.shape[k]);
    cost += d * d * d;
  }
  return cost;
}

}  // namespace

void AssignPhases(const std::vector<Settings>& groups, std::vector<Block>* blocks) {
  for (size_t g = 0; g < groups.size(); ++g) {
    if (!groups[g].root_spread) continue;
    std::vector<Block*> members;
    for (Block& block : *blocks) {
      if (block.group == static_cast<int>(g)) members.push_back(&block);
    }
    std::stable_sort(members.begin(), members.end(),
                     [](const Block* a, const Block* b) { return RootCost(*a) > RootCost(*b); });
    const auto phases = std::min<size_t>(static_cast<size_t>(groups[g].precondition_frequency), members.size());
    std::vector<double> load(phases, 0.0);
    for (Block* block : members) {
      const auto least = std::min_element(load.begin(), load.end());
      block->phase = least - load.begin();
      *least += RootCost(*block);
    }
  }
}

}  // namespace shampoo
