// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/kernel_common.h"

namespace shampoo::cuda {

// Returns whether P, the direction of a block, is in BatchTables::second. If not, P is in BatchTables::first. Kernels
// first write P to `second` if BlockWork::rule is kPrecondition and DeviceBlock::direction_in_second is 1, and
// otherwise to `first`. If the old parameter minus the new one has replaced P (BlockWork::is_difference), this
// difference counts as P, and is in the other buffer.
SHAMPOO_DEVICE inline bool IsInSecond(const DeviceBlock& block, const BlockWork& work) {
  const bool is_in_second = work.rule == DirectionRule::kPrecondition && block.direction_in_second != 0;
  return is_in_second != (work.is_difference != 0);
}
// DirectionBuffer() returns the buffer that contains P. OtherBuffer() returns the other one of the two buffers.
SHAMPOO_DEVICE inline void* DirectionBuffer(const BatchTables& batch, const DeviceBlock& block, const BlockWork& work) {
  return IsInSecond(block, work) ? batch.second : batch.first;
}
SHAMPOO_DEVICE inline void* OtherBuffer(const BatchTables& batch, const DeviceBlock& block, const BlockWork& work) {
  return IsInSecond(block, work) ? batch.first : batch.second;
}

// A block, and the tile of the block that a CTA works on.
template <typename Real>
struct BlockTile {
  const DeviceTile& tile;
  const DeviceBlock& block;
  const DeviceGroup& group;  // the row of Tables::groups with the scalars of the block
  BlockWork& work;
  int64_t begin;  // the tile's first element is element `begin` of the block
  int64_t size;   // number of elements of the tile

  // index: the index of the tile in BatchTables::tiles.
  SHAMPOO_DEVICE BlockTile(const Tables& tables, const BatchTables& batch, int64_t index)
      : tile(batch.tiles[index]),
        block(tables.blocks[tile.block]),
        group(tables.groups[block.scalars]),
        work(tables.work[tile.block]),
        begin(TileBegin(tile)),
        size(TileSize(block, tile)) {}

  // Returns the address of the tile's first element in a buffer of tensors.
  SHAMPOO_DEVICE Real* In(void* buffer) const { return static_cast<Real*>(buffer) + block.at + begin; }
  // Returns the elements of P in this tile.
  SHAMPOO_DEVICE const Real* Direction(const BatchTables& batch) const {
    return In(DirectionBuffer(batch, block, work));
  }
  SHAMPOO_DEVICE bool has_momentum() const { return block.momentum.present() && group.momentum != 0; }
};

// Returns the scalars of a block's step: normally the scalars of its group. If the old parameter minus the new one has
// replaced P, this difference already includes learning rate, decay and shrinkage. In this case, the returned scalars
// do not apply learning rate, decay and shrinkage again.
SHAMPOO_DEVICE inline StepScalars ScalarsOfBlock(const DeviceGroup& group, const BlockWork& work) {
  StepScalars scalars = group;
  if (work.is_difference != 0) {
    scalars.decoupled_decay = 0;
    scalars.lr = 1;
    scalars.shrinkage = 0;
  }
  return scalars;
}

}  // namespace shampoo::cuda
