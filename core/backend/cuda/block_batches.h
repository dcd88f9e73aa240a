// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/plan/block.h"

namespace shampoo::cuda {

// Blocks that a device steps at once. Their tensors lie one after another in working memory, dense and in the
// computation dtype, and so do a square matrix for each of their dims. What is alike lies at equal distances, so that
// one batched call works on all of it.

// Elements of the smallest unit that kernels hand to a CTA.
inline constexpr int64_t kTileElements = 4096;
// Rows and columns of a tile of a symmetric matrix.
inline constexpr int64_t kMatrixTile = 64;
// A batch has no more elements than this, of tensors or of matrices, unless one block alone has.
inline constexpr int64_t kMaxBatchElements = int64_t{1} << 26;
inline constexpr int64_t kMaxBatchMatrixElements = int64_t{1} << 27;

struct BatchItem {
  const Block* block;
  int64_t at;                                 // element of the batch's tensors
  std::array<int64_t, kMaxDims> matrix_at{};  // element of the batch's matrices, by dim
};

// Items that lie one after another and differ in nothing but their phase, by which they are sorted.
struct ShapeGroup {
  size_t first = 0;  // of the batch's items
  size_t count = 0;
  int64_t first_root = 0;                         // of all batches' roots: dim after dim
  int64_t stride = 0;                             // elements from one tensor to the next
  std::array<int64_t, kMaxDims> matrix_stride{};  // of their matrices, by dim
};

struct BlockBatch {
  int bucket = 0;
  Dtype computation = Dtype::kF32;
  std::vector<BatchItem> items;
  std::vector<ShapeGroup> shape_groups;
  int64_t elements = 0;         // of one buffer of tensors
  int64_t matrix_elements = 0;  // of one buffer of matrices
  int64_t tiles = 0;
  int64_t matrix_tiles = 0;

  int64_t matrix_bytes() const { return matrix_elements * static_cast<int64_t>(SizeOf(computation)); }
};

int64_t TileCount(int64_t elements);
// Tiles of the lower triangle of a d x d matrix.
int64_t MatrixTileCount(int64_t d);

// The batches of the given blocks, bucket by bucket.
std::vector<BlockBatch> MakeBatches(const std::vector<const Block*>& blocks);

}  // namespace shampoo::cuda
