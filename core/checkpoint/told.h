// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/checkpoint/ranks.h"

namespace shampoo {

// What ranks look for among the words of those before them.
struct Item {
  int64_t what;       // descriptions, or the names and places of blocks
  int64_t holds = 0;  // blocks: some of their contents, which copies have in common
};

// What ranks before this one have told of its own items.
struct Told {
  std::vector<bool> is_told;
  int differs_from = -1;  // a rank that has something else in the blocks of an item
  size_t differs_in = 0;  // which item
};

// Collective.
Status FindTold(const Ranks& ranks, const std::vector<Item>& own, Told* told);

}  // namespace shampoo
