// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/slot_memory.h"

#include <algorithm>

#include "core/base/round_up.h"
#include "core/plan/layout.h"
#include "core/roots/workspace.h"

namespace shampoo {

static_assert(kLargestBlockDim <= blas::kLargestEigenproblem);

SlotLayout SlotLayout::For(const std::vector<const Block*>& blocks, const std::vector<Settings>& groups) {
  int64_t dense = 0;
  int64_t factor = 0;
  int64_t inverse = 0;
  int64_t root_bytes = 0;
  int64_t largest_dim = 0;
  SlotLayout layout;
  for (const Block* block : blocks) {
    const auto real = static_cast<int64_t>(SizeOf(block->computation));
    const auto root = static_cast<int64_t>(SizeOf(block->root_dtype));
    const RootMethod method = groups[static_cast<size_t>(block->group)].root_method;
    int64_t inverses = 0;
    for (int k = 0; k < block->order(); ++k) {
      const int64_t d = block->shape[k];
      if (block->factor[static_cast<size_t>(k)].dtype != block->computation) factor = std::max(factor, d * d * real);
      if (block->inverse[static_cast<size_t>(k)].dtype != block->computation) {
        inverses += RoundUp(d * d * real, kStateAlignment);
      }
      const int64_t elements = RootWorkspace<double>::Elements(method, d);
      root_bytes = std::max(root_bytes, elements * root);
      if (block->root_dtype != Dtype::kF64) layout.recovery_elements = std::max(layout.recovery_elements, elements);
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
  place(&layout.root, root_bytes);
  place(&layout.root_ints, RootWorkspace<double>::Ints(largest_dim) * 4);
  place(&layout.slice_sums, largest_dim * 8);
  if (layout.recovery_elements > 0) {
    layout.recovery_bytes =
        RoundUp(layout.recovery_elements * 8 + RootWorkspace<double>::Ints(largest_dim) * 4, kStateAlignment);
  }
  return layout;
}

int64_t SlotsFor(int64_t blocks, int threads) { return std::min<int64_t>(blocks, threads); }

int64_t CpuWorkspaceBytes(const std::vector<const Block*>& blocks, const std::vector<Settings>& groups, int threads) {
  const SlotLayout layout = SlotLayout::For(blocks, groups);
  return layout.recovery_bytes +
         SlotsFor(static_cast<int64_t>(blocks.size()), threads) * (layout.bytes + layout.scratch_bytes);
}

}  // namespace shampoo
