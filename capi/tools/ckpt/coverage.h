// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/checkpoint/index.h"

namespace shampoo::ckpt {

// Returns a message that lists the elements of a parameter that are in no block or in several blocks, or "" if each
// element is in exactly one block. blocks: all blocks of the parameter, sorted by SortByPlace.
std::string CoverageFault(const StoredParam& param, const std::vector<const StoredBlock*>& blocks);

}  // namespace shampoo::ckpt
