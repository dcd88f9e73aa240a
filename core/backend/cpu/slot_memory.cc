// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/slot_memory.h"

#include <algorithm>

#include "core/base/round_up.h"
#include "core/blas/blas.h"
#include "core/plan/layout.h"

namespace shampoo {

static_assert(kLargestBlockDim <= blas::kLargestEigenproblem);

SlotLayout SlotLayout::For(const std::vector<const Block*>& blocks) {
  int64_t dense = 0;
  int64_t factor = 0;
  int64_t inverse = 0;
  int64_t root_matrix = 0;
  int64_t root_work = 0;
  int64_t root_eigenvalues = 0;
  int64_t largest_dim = 0;
  SlotLayout layout;
  for (const Block* block : blocks) {
    const auto real = static_cast<int64_t>(SizeOf(block->computation));
    const auto root = static_cast<int64_t>(SizeOf(block->root_dtype));
    int64_t inverses = 0;
    for (int k = 0; k < block->order(); ++k) {
      const int64_t d = block->shape[k];
      if (block->factor[static_cast<size_t>(k)].dtype != block->computation) factor = std::max(factor, d * d * real);
      if (block->inverse[static_cast<size_t>(k)].dtype != block->computation) {
        inverses += RoundUp(d * d * real, kStateAlignment);
      }
      root_matrix = std::max(root_matrix, d * d * root);
      root_eigenvalues = std::max(root_eigenvalues, d * root);
      root_work = std::max(root_work, blas::SyevdWork(d) * root);
      largest_dim = std::max(largest_dim, d);
      const auto element = static_cast<size_t>(std::max(real, root));
      const int64_t extent = std::max(d, block->elements / d);
      layout.scratch_bytes = std::max(layout.scratch_bytes, blas::Scratch::Bytes(extent, element));
    }
    inverse = std::max(inverse, inverses);
    dense = std::max(dense, block->elements * real);
  }
  auto place = [&layout](int64_t* offset, int64_t size) {
    *offset = layout.bytes;
    layout.bytes += RoundUp(size, kStateAlignment);
  };
  place(&layout.gradient, dense);
  place(&layout.filtered, dense);
  place(&layout.direction[0], dense);
  place(&layout.direction[1], dense);
  place(&layout.factor, factor);
  place(&layout.inverse, inverse);
  place(&layout.root_matrix, root_matrix);
  place(&layout.root_eigenvalues, root_eigenvalues);
  place(&layout.root_work, root_work);
  place(&layout.root_int_work, blas::SyevdIntWork(largest_dim) * 4);
  place(&layout.slice_sums, largest_dim * 8);
  return layout;
}

int64_t SlotsFor(int64_t blocks, int threads) { return std::min<int64_t>(blocks, threads); }

int64_t CpuWorkspaceBytes(const std::vector<const Block*>& blocks, int threads) {
  const SlotLayout layout = SlotLayout::For(blocks);
  return SlotsFor(static_cast<int64_t>(blocks.size()), threads) * (layout.bytes + layout.scratch_bytes);
}

}  // namespace shampoo
