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
// A wave has no more elements than this, of tensors or of matrices, unless one block alone has.
inline constexpr int64_t kMostWaveElements = int64_t{1} << 26;
inline constexpr int64_t kMostWaveMatrixElements = int64_t{1} << 27;

struct WaveItem {
  const Block* block;
  int64_t at;                                 // element of the wave's tensors
  std::array<int64_t, kMaxDims> matrix_at{};  // element of the wave's matrices, by dim
};

// Items that lie one after another and differ in nothing but their phase, by which they are sorted.
struct ShapeClass {
  size_t first = 0;  // of the wave's items
  size_t count = 0;
  int64_t first_root = 0;                         // of all waves' roots: dim after dim
  int64_t stride = 0;                             // elements from one tensor to the next
  std::array<int64_t, kMaxDims> matrix_stride{};  // of their matrices, by dim
};

struct Wave {
  int bucket = 0;
  Dtype computation = Dtype::kF32;
  std::vector<WaveItem> items;
  std::vector<ShapeClass> classes;
  int64_t elements = 0;         // of one buffer of tensors
  int64_t matrix_elements = 0;  // of one buffer of matrices
  int64_t tiles = 0;
  int64_t matrix_tiles = 0;

  int64_t matrix_bytes() const { return matrix_elements * static_cast<int64_t>(SizeOf(computation)); }
};

int64_t TileCount(int64_t elements);
// Tiles of the lower triangle of a d x d matrix.
int64_t MatrixTileCount(int64_t d);

// The waves of the given blocks, bucket by bucket.
std::vector<Wave> MakeWaves(const std::vector<const Block*>& blocks);

}  // namespace shampoo::cuda
