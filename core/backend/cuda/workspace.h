// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/plan.h"

namespace shampoo::cuda {

// An upper bound of the bytes that an engine allocates on its device for these blocks, beside their states and the
// buffer of exchanges: a Plan::WorkspaceBytes.
int64_t WorkspaceBytes(const PlanData& plan, const std::vector<const Block*>& blocks);

}  // namespace shampoo::cuda
