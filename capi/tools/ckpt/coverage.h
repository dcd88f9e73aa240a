// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/checkpoint/index.h"

namespace shampoo::ckpt {

// Returns "" if each element of a parameter is in exactly one block. Otherwise returns a message with the
// number of elements that are in no block, the number of those that are in several blocks, and the first few ranges of
// such elements. blocks: all blocks of the parameter,
// sorted by SortByPlace (source.h).
std::string CoverageFault(const StoredParam& param, const std::vector<const StoredBlock*>& blocks);

}  // namespace shampoo::ckpt
