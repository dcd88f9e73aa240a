// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/block_batches.h"

#include <algorithm>
#include <tuple>

#include "core/base/round_up.h"

namespace shampoo::cuda {
namespace {

// In each buffer, the distances between the starts of tensors and of matrices are multiples of this number of elements,
// so that kernels can use wide loads.
constexpr int64_t kElementAlignment = 64;

// Returns the properties that all blocks of a shape group have in common.
auto KindOf(const Block& block) {
  return std::tuple(block.bucket, block.computation, block.gradient_count.present(), block.is_orthogonalized,
                    block.group, block.root_dtype, block.root, block.factor_count(), block.skipped_dims,
                    block.shape.ndim, block.shape.dims, block.inverse[0].dtype, block.orthogonal_rows);
}

// Returns the number of elements from the start of one d x d matrix to the start of the next.
int64_t MatrixStride(int64_t d) { return RoundUp(d * d, kElementAlignment); }

int64_t LargerDim(const Block& block) { return std::max(block.shape[0], block.shape[1]); }

// Returns the number of elements from the start of one Gram matrix to the start of the next (ShapeGroup::gram_stride).
int64_t GramStride(const Block& block) {
  return MatrixStride(std::min(block.orthogonal_rows, block.orthogonal_columns()));
}

// Returns the bytes of the square matrices with which the directions of `count` blocks are orthogonalized: two matrices
// for each block. The result is rounded up so that the matrices of the next shape group are aligned.
int64_t GramBytes(const Block& block, const DeviceSettings& group, int64_t count) {
  if (!block.has_orthogonal_direction()) return 0;
  constexpr int64_t kAlignment = 256;
  return RoundUp(2 * count * GramStride(block) * static_cast<int64_t>(SizeOf(IterationDtypeOf(block, group))),
                 kAlignment);
}

// Returns the bytes that a block takes in one buffer of matrices and in the buffer of Gram matrices together.
int64_t MatrixBytes(const Block& block, const DeviceSettings& group) {
  int64_t elements = 0;
  for (int k = 0; k < block.factor_count(); ++k) elements += block.has_factor(k) ? MatrixStride(block.shape[k]) : 0;
  return elements * static_cast<int64_t>(SizeOf(block.computation)) + GramBytes(block, group, 1);
}

// Returns whether the block has the properties that all blocks of the batch share. Does not check whether the batch has
// room for the block.
bool IsAlike(const BlockBatch& batch, const Block& block) {
  const bool in_basis = block.gradient_count.present();
  return batch.bucket == block.bucket && batch.computation == block.computation && batch.in_basis == in_basis &&
         batch.is_orthogonalized == block.is_orthogonalized &&
         (!in_basis || batch.items[0].block->group == block.group);
}

// Appends `count` blocks of one kind (KindOf), from blocks[first] on, to the batch as a shape group. Assigns positions
// in the buffers of the batch to these blocks. *roots: the number of roots in all earlier shape groups. This function
// adds the number of roots of the new shape group.
void AddShapeGroup(const std::vector<const Block*>& blocks, const DeviceSettings* groups, size_t first, size_t count,
                   int64_t* roots, BlockBatch* batch) {
  const Block& block = *blocks[first];
  ShapeGroup shape_group;
  shape_group.first = batch->items.size();
  shape_group.count = count;
  shape_group.stride = RoundUp(block.elements, kElementAlignment);
  const auto number = static_cast<int64_t>(count);
  shape_group.first_root = *roots;
  *roots += number * block.factor_count();
  std::array<int64_t, kMaxDims> matrix_base{};
  std::array<int64_t, kMaxDims> vector_base{};
  for (int k = 0; k < block.factor_count(); ++k) {
    if (!block.has_factor(k)) continue;
    const auto at = static_cast<size_t>(k);
    vector_base[at] = batch->vector_elements;
    batch->vector_elements += number * block.shape[k];
    shape_group.matrix_stride[at] = MatrixStride(block.shape[k]);
    matrix_base[at] = batch->matrix_elements;
    batch->matrix_elements += number * shape_group.matrix_stride[at];
    batch->matrix_tiles += number * MatrixTileCount(block.shape[k]);
  }
  const DeviceSettings& group = groups[block.group];
  if (block.has_orthogonal_direction()) {
    shape_group.gram_at = batch->gram_bytes;
    shape_group.gram_stride = GramStride(block);
    batch->gram_bytes += GramBytes(block, group, number);
  }
  if (block.is_orthogonalized) {
    vector_base[0] = batch->vector_elements;
    batch->vector_elements += number * LargerDim(block);
  }
  for (int64_t i = 0; i < number; ++i) {
    BatchItem item{blocks[first + static_cast<size_t>(i)], batch->elements + i * shape_group.stride};
    for (size_t k = 0; k < static_cast<size_t>(block.factor_count()); ++k) {
      item.matrix_at[k] = matrix_base[k] + i * shape_group.matrix_stride[k];
      item.vector_at[k] = vector_base[k] + i * block.shape[static_cast<int>(k)];
    }
    if (block.is_orthogonalized) item.vector_at[0] = vector_base[0] + i * LargerDim(block);
    batch->items.push_back(item);
  }
  batch->elements += number * shape_group.stride;
  batch->tiles += number * TileCount(block.elements);
  batch->shape_groups.push_back(shape_group);
}

}  // namespace

int64_t TileCount(int64_t elements) { return (elements + kTileElements - 1) / kTileElements; }

Dtype IterationDtypeOf(const Block& block, const GroupSettings& group) {
  if (group.orthogonalization == Orthogonalization::kExact) return Dtype::kF64;
  return group.muon_math == MuonMath::kBf16 ? Dtype::kBf16 : block.computation;
}

std::vector<BlockBatch> MakeBatches(const std::vector<const Block*>& blocks, const DeviceSettings* groups) {
  std::vector<const Block*> sorted = blocks;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Block* a, const Block* b) {
    return std::tuple(KindOf(*a), a->phase) < std::tuple(KindOf(*b), b->phase);
  });
  std::vector<BlockBatch> batches;
  int64_t roots = 0;
  for (size_t first = 0; first < sorted.size();) {
    const Block& block = *sorted[first];
    size_t alike = 1;
    while (first + alike < sorted.size() && KindOf(*sorted[first + alike]) == KindOf(block)) ++alike;
    const int64_t elements = RoundUp(block.elements, kElementAlignment);
    const int64_t matrix_bytes = std::max<int64_t>(MatrixBytes(block, groups[block.group]), 1);
    const int64_t most_bytes = kMaxBatchMatrixElements * static_cast<int64_t>(SizeOf(block.computation));
    while (alike > 0) {
      int64_t room = 0;
      if (!batches.empty() && IsAlike(batches.back(), block)) {
        const int64_t used_bytes = batches.back().matrix_bytes() + batches.back().gram_bytes;
        room = std::min((kMaxBatchElements - batches.back().elements) / elements,
                        (most_bytes - used_bytes) / matrix_bytes);
      }
      if (room <= 0) {
        batches.emplace_back();
        batches.back().bucket = block.bucket;
        batches.back().computation = block.computation;
        batches.back().in_basis = block.gradient_count.present();
        batches.back().is_orthogonalized = block.is_orthogonalized;
        room = std::max<int64_t>(1, std::min(kMaxBatchElements / elements, most_bytes / matrix_bytes));
      }
      const size_t taken = std::min(alike, static_cast<size_t>(room));
      AddShapeGroup(sorted, groups, first, taken, &roots, &batches.back());
      first += taken;
      alike -= taken;
    }
  }
  return batches;
}

}  // namespace shampoo::cuda
