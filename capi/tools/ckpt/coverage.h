// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/checkpoint/index.h"

namespace shampoo::ckpt {

// Returns "" if each element of a parameter is in exactly one block. Otherwise returns a message about the elements
// that are in no block and the elements that are in several blocks. For each of these two sets, if it is not empty, the
// message has the number of elements and the first few ranges of their indices. blocks: all blocks of the parameter,
// sorted by SortByPlace() (source.h).
std::string CoverageFault(const StoredParam& param, const std::vector<const StoredBlock*>& blocks);

}  // namespace shampoo::ckpt
