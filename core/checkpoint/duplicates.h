// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/checkpoint/ranks.h"

namespace shampoo {

// An item that several ranks may have: the lowest rank that has it writes it.
struct Item {
  int64_t what;       // hash of descriptions, or of the names and places of blocks
  int64_t holds = 0;  // of blocks: a hash of some of their contents, the same for all copies
};

// Which of this rank's items lower ranks have, too.
struct Duplicates {
  std::vector<bool> is_duplicate;
  int differs_from = -1;  // a rank whose blocks of an item have other contents; -1: none
  size_t differs_in = 0;  // which item
};

// Finds the duplicates among the items of all ranks. Collective.
Status FindDuplicates(const Ranks& ranks, const std::vector<Item>& own, Duplicates* duplicates);

}  // namespace shampoo
