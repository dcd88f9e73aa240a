// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/base/status.h"
#include "core/config/settings.h"
#include "core/plan/block.h"

namespace shampoo {

// The blocks of one parameter, in the order of semantics: stack, recovery (flat shards), merge, split. Sets shape,
// stride, offsets and elements of each; the rest is the plan's.
Status MakeBlocksOf(const Param& param, const Settings& settings, std::vector<Block>* blocks);

}  // namespace shampoo
