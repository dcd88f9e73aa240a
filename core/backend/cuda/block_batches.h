// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/backend/cuda/interface.h"
#include "core/plan/block.h"

namespace shampoo::cuda {

// A device steps blocks (makes the optimizer's step for them) in batches. The tensors of a batch's blocks are stored
// one after another in working memory, contiguous and in the computation dtype. The square matrices of their dims
// (factor matrices, inverse roots, ...) are stored in the same way. All buffers of tensors of a batch have the same
// layout, and so do all buffers of matrices. The tensors of a ShapeGroup are equally spaced, and so are its matrices of
// each dim. Therefore one call of a CUDA library can process all tensors, or all matrices of one dim, of a ShapeGroup.

// The number of elements of a tile. In elementwise kernels, a CTA (a thread block of CUDA) processes one tile at a
// time.
inline constexpr int64_t kTileElements = 4096;
// Rows and columns of a tile of a symmetric matrix.
inline constexpr int64_t kMatrixTile = 64;
// A batch has at most kMaxBatchElements elements of tensors. One buffer of matrices and the buffer of Gram matrices
// together have at most as many bytes as kMaxBatchMatrixElements numbers of the computation dtype. A batch of a single
// block may have more.
inline constexpr int64_t kMaxBatchElements = int64_t{1} << 26;
inline constexpr int64_t kMaxBatchMatrixElements = int64_t{1} << 27;

// A block of a batch, and the offsets of its data in the buffers of the batch, in elements.
struct BatchItem {
  const Block* block;
  int64_t at;                                 // in each buffer of tensors
  std::array<int64_t, kMaxDims> matrix_at{};  // in each buffer of matrices, by dim
  // In each buffer of vectors, by dim. A vector has one element for each row of the matrix of its dim. See also
  // BlockBatch::is_orthogonalized.
  std::array<int64_t, kMaxDims> vector_at{};
};

// Consecutive items of a batch whose blocks have the same shape and settings. The items are sorted by Block::phase.
struct ShapeGroup {
  size_t first = 0;  // index in the batch's items
  size_t count = 0;
  // Index of this shape group's first root in the list of the roots of all batches. Roots of a shape group are ordered
  // by dim, then by item.
  int64_t first_root = 0;
  int64_t stride = 0;  // elements between the starts of consecutive tensors
  // Elements between the starts of consecutive matrices, by dim.
  std::array<int64_t, kMaxDims> matrix_stride{};
  // If the directions are orthogonalized: offset in bytes of the shape group's square matrices in the buffer whose size
  // is BlockBatch::gram_bytes. First come the Gram matrices of all blocks of the shape group, then the polynomials of
  // these matrices (orthogonalizer.cc).
  int64_t gram_at = 0;
  int64_t gram_stride = 0;  // elements between the starts of consecutive square matrices
};

struct BlockBatch {
  int bucket = 0;
  bool in_basis = false;  // the method of the blocks works in eigenbases; all blocks then have the same Block::group
  // Whether method muon orthogonalizes the directions of the blocks. If so, each block has one vector (vector_at[0])
  // with as many elements as its larger dim.
  bool is_orthogonalized = false;
  Dtype computation = Dtype::kF32;
  std::vector<BatchItem> items;
  std::vector<ShapeGroup> shape_groups;
  int64_t elements = 0;         // in one buffer of tensors
  int64_t matrix_elements = 0;  // in one buffer of matrices
  int64_t vector_elements = 0;  // in one buffer of vectors
  // Bytes of the buffer of Gram matrices. This buffer has two square matrices for each direction that is
  // orthogonalized. The direction is viewed as a matrix, and its smaller dim is the size of both square matrices.
  int64_t gram_bytes = 0;
  int64_t tiles = 0;         // of all tensors
  int64_t matrix_tiles = 0;  // of all matrices

  int64_t matrix_bytes() const { return matrix_elements * static_cast<int64_t>(SizeOf(computation)); }
};

// Returns the number of tiles of a tensor.
int64_t TileCount(int64_t elements);
// Returns the number of tiles that cover the lower triangle of a d x d matrix.
constexpr int64_t MatrixTileCount(int64_t d) {
  const int64_t rows = (d + kMatrixTile - 1) / kMatrixTile;
  return rows * (rows + 1) / 2;
}

// Returns the dtype in which the direction of a block is orthogonalized. group: the settings of the block's group.
Dtype IterationDtypeOf(const Block& block, const GroupSettings& group);

// Returns the batches of the blocks, ordered by bucket. groups: the settings of all groups of the plan.
std::vector<BlockBatch> MakeBatches(const std::vector<const Block*>& blocks, const DeviceSettings* groups);

}  // namespace shampoo::cuda
