// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/slot_memory.h"

#include <algorithm>

#include "core/backend/cpu/basis_states.h"
#include "core/backend/cpu/factor_pair.h"
#include "core/backend/cpu/norm_control_pass.h"
#include "core/base/round_up.h"
#include "core/base/tiles.h"
#include "core/roots/orthogonalize.h"
#include "core/roots/workspace.h"

namespace shampoo {
namespace {

static_assert(kLargestBlockDim <= blas::kLargestEigenproblem);

// Returns whether some phase of the block's step may divide its work into tiles (tiles.h).
bool MayBeDivided(const Block& block) {
  double products = 0;
  int large_factors = 0;
  if (block.is_orthogonalized) {
    products = static_cast<double>(std::min(block.shape[0], block.shape[1])) * static_cast<double>(block.elements);
  }
  for (int k = 0; k < block.factor_count(); ++k) {
    if (!block.has_factor(k)) continue;
    const auto d = static_cast<double>(block.shape[k]);
    large_factors += block.shape[k] >= kRootsSideBySide ? 1 : 0;
    products = std::max({products, d * static_cast<double>(block.elements), d * d * d});
  }
  return large_factors > 1 || 2 * products >= double{kMinParallelProducts} || block.elements >= (int64_t{2} << 16);
}

template <typename Real>
int64_t PairBytes(const Block& block, const Settings& settings) {
  if (block.has_orthogonal_direction() || block.is_rotated()) {
    int64_t elements = block.is_rotated() ? BasisStates<Real>::FactorElements(block) : 0;
    if (block.has_orthogonal_direction()) {
      elements = std::max(elements, OrthogonalizeMemory<Real>::Elements(
                                        settings.orthogonalization, block.orthogonal_rows, block.orthogonal_columns()));
    }
    return elements * static_cast<int64_t>(sizeof(Real));
  }
  int64_t bytes = 0;
  for (int k = 0; k < block.factor_count(); ++k) {
    if (block.has_factor(k)) bytes += FactorPair<Real>::WorkingBytes(block, k);
  }
  return bytes;
}

}  // namespace

WorkspaceLayout WorkspaceLayout::For(const std::vector<const Block*>& blocks, int64_t largest_dim,
                                     const std::vector<Settings>& groups, int threads) {
  int64_t dense = 0;
  int64_t pairs = 0;
  int64_t vectors = 0;
  int64_t spare = 0;
  int64_t norm_rows = 0;
  int64_t root_bytes = 0;
  int64_t factors = 0;
  int64_t largest_factor = 0;
  bool divided = false;
  WorkspaceLayout layout;
  for (const Block* block : blocks) {
    const auto real = static_cast<int64_t>(SizeOf(block->computation));
    const auto root = static_cast<int64_t>(SizeOf(block->root_dtype));
    const Settings& settings = groups[static_cast<size_t>(block->group)];
    const RootMethod method = settings.root_method;
    if (settings.update_floor_rows)
      norm_rows = std::max(norm_rows, block->matrix_rows * static_cast<int64_t>(sizeof(NormControlRow)));
    for (int k = 0; k < block->factor_count(); ++k) {
      if (!block->has_factor(k)) continue;
      const int64_t d = block->shape[k];
      const int64_t in_f64 = RootWorkspace<double>::Elements(method, d);
      const bool narrow = block->root_dtype != Dtype::kF64;
      root_bytes = std::max(root_bytes, (narrow ? RootWorkspace<float>::Elements(method, d) : in_f64) * root);
      // The recovery ladder computes in float64. It is rarely used, so this layout does not contain the BLAS scratch
      // memory of the ladder. That memory is allocated when needed.
      if (narrow) layout.recovery_elements = std::max(layout.recovery_elements, in_f64);
      largest_factor = std::max(largest_factor, d);
      layout.scratch.Add(d, block->elements / d, SizeOf(block->computation));
      layout.scratch.Add(d, d, SizeOf(block->root_dtype));
    }
    pairs = std::max(pairs, block->computation == Dtype::kF64 ? PairBytes<double>(*block, settings)
                                                              : PairBytes<float>(*block, settings));
    if (block->has_orthogonal_direction()) {
      const int64_t smaller = std::min(block->orthogonal_rows, block->orthogonal_columns());
      layout.scratch.Add(smaller, block->elements / smaller, SizeOf(block->computation));
      layout.scratch.Add(smaller, smaller, SizeOf(block->computation));
      if (settings.orthogonalization == Orthogonalization::kExact) {
        layout.scratch.Add(smaller, block->elements / smaller, sizeof(double));
      }
    }
    dense = std::max(dense, block->elements * real);
    if (block->is_rotated()) {
      spare = std::max(spare, block->elements * real);
      vectors = std::max(vectors, BasisStates<double>::VectorElements(*block) * 8);
    }
    factors += block->factor_count();
    divided = divided || MayBeDivided(*block);
  }
  const auto place = [](int64_t* offset, int64_t size, int64_t* end) {
    *offset = *end;
    *end += RoundUp(size, kStateAlignment);
  };
  place(&layout.gradient, dense, &layout.item_bytes);
  place(&layout.filtered, dense, &layout.item_bytes);
  place(&layout.direction[0], dense, &layout.item_bytes);
  place(&layout.direction[1], dense, &layout.item_bytes);
  place(&layout.pairs, pairs, &layout.item_bytes);
  place(&layout.vectors, vectors, &layout.item_bytes);
  place(&layout.spare, spare, &layout.item_bytes);
  place(&layout.norm_rows, norm_rows, &layout.item_bytes);
  place(&layout.root, root_bytes, &layout.root_bytes);
  place(&layout.root_ints, RootWorkspace<double>::Ints(largest_factor) * 4, &layout.root_bytes);
  if (layout.recovery_elements > 0) {
    layout.recovery_bytes =
        RoundUp(layout.recovery_elements * 8 + RootWorkspace<double>::Ints(largest_factor) * 4, kStateAlignment);
  }
  layout.inspection_bytes = RoundUp(largest_dim * 8, kStateAlignment);
  layout.item_slots = static_cast<int>(std::min<int64_t>(static_cast<int64_t>(blocks.size()), threads));
  // A thread that makes the step of a block also computes roots of this block, so each item slot needs a root slot.
  layout.root_slots = layout.item_slots;
  if (divided) layout.root_slots = std::max(layout.root_slots, static_cast<int>(std::min<int64_t>(factors, threads)));
  layout.slots = divided ? threads : layout.item_slots;
  return layout;
}

int64_t LargestDim(const PlanData& plan) {
  int64_t largest = 0;
  for (const Block& block : plan.blocks) {
    for (int k = 0; k < block.order(); ++k) largest = std::max(largest, block.shape[k]);
  }
  return largest;
}

int64_t CpuWorkspaceBytes(const PlanData& plan, size_t /*rank*/, const std::vector<const Block*>& blocks) {
  const WorkspaceLayout layout = WorkspaceLayout::For(blocks, LargestDim(plan), plan.groups, plan.threads);
  return layout.bytes() + layout.slots * layout.scratch.bytes();
}

}  // namespace shampoo
