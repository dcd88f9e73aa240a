// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/config/settings.h"
#include "core/plan/block.h"
#include "core/plan/shape.h"

// Divides a parameter into blocks in four steps:
//   1. stack   the leading stack_dims dims enumerate separate tensors, which together are the stack; row_splits cuts
//              each tensor into parts;
//   2. pieces  a flat shard of a tensor, which is a range of its elements in memory order, is cut into dense pieces;
//   3. merge   small dims of each tensor or piece are joined;
//   4. split   dims above max_preconditioner_dim are cut.
// StackedTensorShape() and RowDim() accept every shape. The other functions that take a Shape require that no dim of
// the shape is 0. All of these except CountBlocks() also require that the product of the dims fits int64_t.
namespace shampoo {

// Appends the blocks of one parameter. In each block, sets the fields that describe the view of the parameter
// (from `shape` to `global_offset`), the matrix to which the block belongs (Block::matrix_rows), and how the direction
// is computed (such as is_preconditioned). The caller sets the other fields.
Status AppendBlocks(const Param& param, const Settings& settings, std::vector<Block>* blocks);

// 1. The part of a flat range of the stack that is in one stacked tensor: elements [start, end) of this tensor. It is
// never empty.
struct StackedRange {
  int64_t tensor;  // 0, 1, ... in memory order
  int64_t start;
  int64_t end;
  int64_t offset_in_shard;  // of element `start`, counted from the beginning of the flat range
};

// Returns the shape of one stacked tensor. If stack_dims is shape.ndim, each element is a separate tensor.
// StackedTensorShape(), CountStack() and SplitStack() require 0 <= stack_dims <= shape.ndim.
Shape StackedTensorShape(const Shape& shape, int stack_dims);

// Returns the number of stacked tensors that have elements in the flat range [start, end) of the stack. This is the
// number of entries that SplitStack() returns. A caller that limits the number of blocks checks this number
// before it calls SplitStack().
int64_t CountStack(const Shape& shape, int stack_dims, int64_t start, int64_t end);

// Cuts the flat range [start, end) at the borders of the stacked tensors, in memory order. The whole stack is
// [0, shape.Product()); an empty range gives no entries. Requires 0 <= start <= end <= shape.Product().
std::vector<StackedRange> SplitStack(const Shape& shape, int stack_dims, int64_t start, int64_t end);

// A part of a stacked tensor (row_splits): the indices [first, first + count) of one dim.
struct TensorPart {
  int64_t first;
  int64_t count;
};

// Returns the dim of a stacked tensor that row_splits cuts: the first one, or the last one with Fan::kInOut.
int RowDim(const Shape& tensor, Fan fan);
// Returns the parts into which `splits` cuts a dim of length `rows`. If `splits` has several sizes, there is one part
// for each size. A single size is repeated. Without sizes, the only part is the whole dim. Requires sizes that
// CheckParamDesc accepts.
std::vector<TensorPart> TensorParts(const std::vector<int64_t>& splits, int64_t rows);

// 2. A dense piece of a tensor. All elements of the piece are in one flat shard.
struct ShardPiece {
  int64_t offset_in_shard;  // of the first element of the piece, in elements
  Shape shape;
};

// Cuts the flat shard [start, end) of a row-major tensor into dense pieces.
// The k slices along dim 0 that the shard contains completely are one piece of shape (k, d1, ...). The remainder on
// each side is cut in the same way, one dim deeper. A shard that is within one slice is also cut one dim deeper. The
// pieces are in memory order and cover the shard exactly. There are at most 2 ndim - 1 of them, and none if the shard
// is empty. A scalar gives one piece of shape (1). Requires 0 <= start <= end <= shape.Product().
std::vector<ShardPiece> FlatShardPieces(const Shape& shape, int64_t start, int64_t end);

// 3. Merges dims: returns the shape of the same elements, in the same sequence, with fewer and larger dims. Dims of
// length 1 are dropped. If no dim remains (a scalar, or all dims are 1), the shape is (1). Two neighboring dims become
// one dim if their product is at most max_dim. min_dim selects the neighbors that are considered:
//   min_dim == 0: all neighbors, from left to right.
//   min_dim > 0:  from right to left, neighbors of which at least one is below min_dim, while more than two dims
//                 remain. This merges the kernel dims of a convolution with its input channels, and the number of
//                 attention heads with the width of a head, whether the output dim is first or last. A matrix stays a
//                 matrix.
// A dim longer than skip_size is not merged; with skip_size 0, there is no such limit. If `skipped` is not nullptr,
// sets bit k of *skipped if dim k of the result is longer than skip_size, and clears all other bits. Requires
// max_dim >= 1, min_dim >= 0 and skip_size >= 0.
Shape MergeDims(const Shape& shape, int64_t max_dim, int64_t min_dim, int64_t skip_size = 0,
                uint32_t* skipped = nullptr);

// 4. A block of a row-major tensor, as a strided view: element (i0, i1, ...) of the block is element
// offset + i0 stride[0] + i1 stride[1] + ... of the tensor.
struct TensorBlock {
  Shape shape;
  std::array<int64_t, kMaxDims> stride;  // in elements; 0 from shape.ndim on
  int64_t offset;                        // in elements
};

// Sets *count to the number of blocks that SplitBlocks() would return, so that a caller can reject a max_dim that is
// too small before it allocates memory for the blocks. If the number exceeds int64_t, returns false and leaves *count
// unchanged. The number fits if the product of the dims fits int64_t. Requires max_dim >= 1. skipped: see
// SplitBlocks().
bool CountBlocks(const Shape& shape, int64_t max_dim, int64_t* count, uint32_t skipped = 0);

// Cuts each dim into chunks of max_dim; the last chunk may be shorter. The blocks are ordered by their chunk indices,
// dim 0 outermost. A tensor without a dim above max_dim is one block; a scalar is one block of shape (1).
// Dims whose bit in `skipped` is set are not cut. Requires max_dim >= 1.
std::vector<TensorBlock> SplitBlocks(const Shape& shape, int64_t max_dim, uint32_t skipped = 0);

// The largest number of elements in a block of an elementwise method, unless the group uses norms of whole tensors
// (Settings::uses_norms). Blocks of this size can be distributed among ranks and threads, and are small enough to
// exchange.
inline constexpr int64_t kElementwiseBlock = int64_t{1} << 16;
// Cuts a tensor into blocks of neighboring elements for an elementwise method. Each block consists of whole slices
// along one dim, as many as fit into kElementwiseBlock elements.
std::vector<TensorBlock> SplitElementwise(const Shape& shape);

}  // namespace shampoo
