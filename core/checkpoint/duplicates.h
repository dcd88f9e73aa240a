// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/checkpoint/ranks.h"

namespace shampoo {

// An item of a checkpoint that several ranks may have: the descriptions or the blocks of an optimizer, or a single
// block. The lowest rank that has an item writes it.
struct Item {
  int64_t id;            // hash of descriptions, or of the names and places of blocks
  int64_t contents = 0;  // for blocks: a hash of samples of their states
};

// The items of this rank that lower ranks have, too.
struct Duplicates {
  std::vector<bool> is_duplicate;  // by item
  int differs_from = -1;           // a rank that has one of these items with different contents; -1: none
  size_t differs_in = 0;           // the index of that item
};

// Finds the items of this rank that lower ranks have. Collective.
Status FindDuplicates(const Ranks& ranks, const std::vector<Item>& own, Duplicates* duplicates);

}  // namespace shampoo
