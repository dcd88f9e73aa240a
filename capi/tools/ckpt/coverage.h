// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/checkpoint/index.h"

namespace shampoo::ckpt {

// Which elements of a parameter are in none of its blocks, or in several; "" where each is in one. blocks: by place.
std::string CoverageFault(const StoredParam& param, const std::vector<const StoredBlock*>& blocks);

}  // namespace shampoo::ckpt
