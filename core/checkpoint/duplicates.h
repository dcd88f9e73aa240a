// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/checkpoint/ranks.h"

namespace shampoo {

// An item of a checkpoint that several ranks may have: all descriptions of an optimizer (description.h), several blocks
// of an optimizer, or a single block. The lowest rank that has an item writes it.
struct Item {
  int64_t id;            // a hash of the descriptions, or of the names and places of the blocks
  int64_t contents = 0;  // a hash of samples from the states of the blocks; 0 for descriptions
};

// The items of this rank that lower ranks have, too.
struct Duplicates {
  std::vector<bool> is_duplicate;  // by item
  int differs_from = -1;           // a lower rank on which an item of this rank has other contents; -1: none
  size_t differs_in = 0;           // the index of that item in `own`; valid if differs_from is not -1
};

// Finds the items of this rank that lower ranks have. Collective.
Status FindDuplicates(const Ranks& ranks, const std::vector<Item>& own, Duplicates* duplicates);

}  // namespace shampoo
