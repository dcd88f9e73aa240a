// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/kernel_common.h"

namespace shampoo::cuda {

// A block, and the tile of the block that a CTA works on.
template <typename Real>
struct BlockTile {
  const DeviceTile& tile;
  const DeviceBlock& block;
  const DeviceGroup& group;
  BlockWork& work;
  int64_t begin;
  int64_t size;

  SHAMPOO_DEVICE BlockTile(const Tables& tables, const BatchTables& batch, int64_t index)
      : tile(batch.tiles[index]),
        block(tables.blocks[tile.block]),
        group(tables.groups[block.group]),
        work(tables.work[tile.block]),
        begin(TileBegin(tile)),
        size(TileSize(block, tile)) {}

  SHAMPOO_DEVICE Real* In(void* buffer) const { return static_cast<Real*>(buffer) + block.at + begin; }
  // Returns P. The buffer depends on whether the step has multiplied it by inverse roots.
  SHAMPOO_DEVICE const Real* Direction(const BatchTables& batch) const {
    const bool in_second = work.rule == DirectionRule::kPrecondition && block.direction_in_second != 0;
    return In(in_second ? batch.second : batch.first);
  }
  SHAMPOO_DEVICE bool has_momentum() const { return block.momentum.present() && group.momentum != 0; }
};

// Returns the scalars of the step of a block: those of its group, except where norm_control replaces them.
SHAMPOO_DEVICE inline StepScalars ScalarsOfBlock(const DeviceGroup& group, const BlockWork& work) {
  StepScalars scalars = group;
  if (work.on_hyperball != 0) {
    scalars.decoupled_decay = 0;
    scalars.lr = work.lr;
    scalars.shrinkage = work.shrinkage;
  }
  return scalars;
}

}  // namespace shampoo::cuda
