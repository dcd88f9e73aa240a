// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/block_tile.h"

// Shared by orthogonalize_kernels.cu, which orthogonalizes directions, and muon_kernels.cu, which then applies the key
// second_moment to them.
namespace shampoo::cuda {

// Returns whether the step orthogonalizes the direction of block `b`.
SHAMPOO_DEVICE inline bool IsOrthogonalized(const Tables& tables, int32_t b) {
  return IsStepped(tables, b) && tables.blocks[b].orthogonalized != 0 &&
         tables.work[b].rule == DirectionRule::kPrecondition;
}

}  // namespace shampoo::cuda
