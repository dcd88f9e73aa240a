// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/split.h"

#include <algorithm>
#include <cstddef>

namespace shampoo {
namespace {

Shape ChunkCounts(const Shape& shape, int64_t max_dim) {
  Shape counts = shape;
  for (int dim = 0; dim < shape.ndim; ++dim) counts[dim] = shape[dim] / max_dim + (shape[dim] % max_dim != 0 ? 1 : 0);
  return counts;
}

}  // namespace

bool CountBlocks(const Shape& shape, int64_t max_dim, int64_t* count) {
  return CheckedProduct(ChunkCounts(shape, max_dim), count);
}

std::vector<BlockView> SplitBlocks(const Shape& shape, int64_t max_dim) {
  const Shape tensor = shape.ndim > 0 ? shape : Shape::Of({1});
  const Shape counts = ChunkCounts(tensor, max_dim);
  const std::array<int64_t, kMaxDims> strides = RowMajorStrides(tensor);
  const int64_t count = counts.Product();

  std::vector<BlockView> blocks;
  blocks.reserve(static_cast<size_t>(count));
  for (int64_t block = 0; block < count; ++block) {
    BlockView view{tensor, strides, 0};
    int64_t chunks = block;  // the block's number, from which its chunk indices are taken innermost first
    for (int dim = tensor.ndim - 1; dim >= 0; --dim) {
      const int64_t begin = chunks % counts[dim] * max_dim;
      chunks /= counts[dim];
      view.shape[dim] = std::min(max_dim, tensor[dim] - begin);
      view.offset += begin * strides[static_cast<size_t>(dim)];
    }
    blocks.push_back(view);
  }
  return blocks;
}

}  // namespace shampoo
