// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/plan.h"

namespace shampoo::cuda {

// Returns an upper bound of the bytes that the CUDA backend (DeviceEngine) allocates on a device for `blocks`.
// Includes the buffers of the exchange in which shard ranks agree on a step. Does not include the states and the other
// exchange buffers. This function is an argument of Plan::Create(), with the type Plan::WorkspaceBytes.
int64_t WorkspaceBytes(const PlanData& plan, size_t rank, const std::vector<const Block*>& blocks);

}  // namespace shampoo::cuda
