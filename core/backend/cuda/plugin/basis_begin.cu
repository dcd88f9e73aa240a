// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/basis_common.h"
#include "core/rules/basis.h"

namespace shampoo::cuda {
namespace {

struct BeginBasesBody {
  BasisArgs args;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    cta.ForEach(args.batch.block_count, [&](int64_t i) {
      const int32_t b = args.batch.blocks[i];
      if (!IsStepped(args.tables, b)) return;
      const DeviceBlock& block = args.tables.blocks[b];
      auto* const count = reinterpret_cast<int64_t*>(args.tables.state_out + block.gradient_count.offset);
      args.basis.work[b] = Begin(args.tables.groups[block.group], ++*count);
      const DeviceGroup& group = args.tables.groups[block.group];
      args.tables.work[b].keeps_parameter = args.basis.work[b].update < 1 ? 1 : 0;
      const bool grafts = group.grafting != Grafting::kNone;
      if (grafts && args.basis.work[b].update < group.settings.start_preconditioning_step) {
        args.tables.work[b].rule = DirectionRule::kGraft;
      }
    });
  }

  SHAMPOO_DEVICE static BasisWork Begin(const DeviceGroup& group, int64_t gradient) {
    const BasisScalars scalars = MakeBasisScalars(group.settings, group, gradient);
    BasisWork work{};
    work.update = scalars.update;
    work.is_first = scalars.is_first ? 1 : 0;
    work.updates_factors = scalars.updates_factors ? 1 : 0;
    work.factor_decay = scalars.factor_decay;
    work.eigenvalue_decay = scalars.eigenvalue_decay;
    work.factor_weight = scalars.factor_weight;
    work.filter_correction = scalars.filter_correction;
    work.moment_correction = scalars.moment_correction;
    work.moment_epsilon = scalars.moment_epsilon;
    work.divisor = scalars.basis_correction;
    return work;
  }
};

template <typename Real>
struct LoadBasesBody {
  BasisArgs args;
  int32_t whitens;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceMatrixTile& tile = args.batch.matrix_tiles[cta.index()];
    const DeviceBlock& block = args.tables.blocks[tile.block];
    const MatrixTile part(tile, block.shape[tile.dim]);
    const int64_t d = part.d;
    const auto* const q = reinterpret_cast<const Real*>(args.tables.state_out + block.basis[tile.dim].offset);
    Real* const to = static_cast<Real*>(args.basis.bases) + block.matrix_at[tile.dim];
    // Before a refresh, the buffer `rotations` contains Q diag(s); see LoadBases() for s.
    Real* const whitened = static_cast<Real*>(args.basis.rotations) + block.matrix_at[tile.dim];
    const bool is_stepped = IsStepped(args.tables, tile.block);
    const bool is_first = is_stepped && args.basis.work[tile.block].is_first != 0;
    ForEachOfBoth(cta, part, [&](int64_t r, int64_t c) {
      // Matrix products process whole shape groups. So a block that the step does not update needs a finite matrix,
      // too. It gets the identity.
      const Real identity = r == c ? Real{1} : Real{0};
      const Real value = is_stepped ? q[r * d + c] : identity;
      to[r * d + c] = value;
      if (whitens == 0) return;
      const bool plain = !is_stepped || is_first;
      whitened[r * d + c] = plain ? identity : value * ScalesOf<Real>(args, block, tile.dim)[c];
    });
  }
};

template <typename Real>
struct LoadFactorsBody {
  BasisArgs args;
  TaskSelection selection;
  void* to;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceMatrixTile& tile = args.batch.matrix_tiles[cta.index()];
    const DeviceBlock& block = args.tables.blocks[tile.block];
    const MatrixTile part(tile, block.shape[tile.dim]);
    const int64_t d = part.d;
    Real* const matrix = static_cast<Real*>(to) + block.matrix_at[tile.dim];
    const bool is_selected = IsSelected(args, tile.block, selection);
    const StateSlot& slot = block.factor[tile.dim];
    const char* const factor = args.tables.state_out + slot.offset;
    const Real divisor = is_selected ? static_cast<Real>(args.basis.work[tile.block].divisor) : Real{1};
    part.ForEachLower(cta, [&](int64_t r, int64_t c) {
      Real value = r == c ? Real{1} : Real{0};
      if (is_selected) value = ReadAs<Real>(factor, slot.dtype, KeptAt(slot.form, d, r, c)) / divisor;
      matrix[r * d + c] = value;
    });
    part.Mirror(cta, matrix);
  }
};

SHAMPOO_DEVICE inline const StateSlot& SlotOf(const DeviceBlock& block, RotatedState state) {
  return state == RotatedState::kFilteredGradient ? block.filtered_grad : block.second_moment;
}

template <typename Real>
struct LoadRotatedBody {
  BasisArgs args;
  TaskSelection selection;
  RotatedState state;
  void* to;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceTile& tile = args.batch.tiles[cta.index()];
    const BasisTile<Real> part(args, tile);
    const StateSlot& slot = SlotOf(part.block, state);
    Real* const tensor = part.In(to);
    const bool is_read = IsSelected(args, tile.block, selection) && slot.present();
    cta.ForEach(part.size, [&](int64_t i) {
      tensor[i] = is_read ? ReadAs<Real>(args.tables.state_out + slot.offset, slot.dtype, part.begin + i) : Real{0};
    });
  }
};

template <typename Real, typename Rounding>
struct StoreRotatedBody {
  BasisArgs args;
  TaskSelection selection;
  RotatedState state;
  const void* from;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceTile& tile = args.batch.tiles[cta.index()];
    const BasisTile<Real> part(args, tile);
    const StateSlot& slot = SlotOf(part.block, state);
    if (!IsSelected(args, tile.block, selection) || !slot.present() || FactorCount(part.block) == 0) return;
    const Real* const tensor = part.In(from);
    const Rounding rounding(args.tables, tile.block,
                            state == RotatedState::kFilteredGradient ? RoundedState::kRotatedFilteredGrad
                                                                     : RoundedState::kRotatedSecondMoment);
    cta.ForEach(part.size, [&](int64_t i) {
      const int64_t at = part.begin + i;
      rounding.Write(args.tables.state_out + slot.offset, slot.dtype, at, at, tensor[i]);
    });
  }
};

}  // namespace

cudaError_t BeginBases(cudaStream_t stream, const BasisArgs& args) { return Launch(stream, 1, BeginBasesBody{args}); }

cudaError_t LoadBases(cudaStream_t stream, const BasisArgs& args, bool whitens) {
  return LaunchBasis<LoadBasesBody>(stream, args.batch.matrix_tile_count, args, whitens ? 1 : 0);
}

cudaError_t LoadFactors(cudaStream_t stream, const BasisArgs& args, TaskSelection selection, void* to) {
  return LaunchBasis<LoadFactorsBody>(stream, args.batch.matrix_tile_count, args, selection, to);
}

cudaError_t LoadRotatedState(cudaStream_t stream, const BasisArgs& args, TaskSelection selection, RotatedState state,
                             void* to) {
  return LaunchBasis<LoadRotatedBody>(stream, args.batch.tile_count, args, selection, state, to);
}

cudaError_t StoreRotatedState(cudaStream_t stream, const BasisArgs& args, TaskSelection selection, RotatedState state,
                              const void* from) {
  return LaunchRounding<StoreRotatedBody>(stream, args.batch.tile_count, args.tables, args.computation, args, selection,
                                          state, from);
}

}  // namespace shampoo::cuda
