// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/checkpoint/index.h"

namespace shampoo::ckpt {

// Returns "" if each element of a parameter is in exactly one block. Otherwise returns a message that lists the
// elements that are in no block or in several blocks. blocks: all blocks of the parameter, sorted by SortByPlace
// (source.h).
std::string CoverageFault(const StoredParam& param, const std::vector<const StoredBlock*>& blocks);

}  // namespace shampoo::ckpt
