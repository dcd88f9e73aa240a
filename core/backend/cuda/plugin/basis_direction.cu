// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/basis_common.h"
#include "core/rules/basis.h"

namespace shampoo::cuda {
namespace {

template <typename Real>
SHAMPOO_DEVICE inline FilterScalars<Real> ScalarsOf(const BasisTile<Real>& part) {
  FilterScalars<Real> scalars = MakeFilterScalars<Real>(part.group);
  scalars.filter_correction = static_cast<Real>(part.own.filter_correction);
  scalars.moment_correction = static_cast<Real>(part.own.moment_correction);
  scalars.moment_epsilon = static_cast<Real>(part.own.moment_epsilon);
  return scalars;
}

// RotatedIn() returns the buffer of the rotated gradient, and DirectionIn() returns the buffer of the direction in the
// eigenbases. A block without factor matrices has no eigenbases: the gradient and the direction are not rotated.
SHAMPOO_DEVICE inline void* RotatedIn(const BasisArgs& args, const DeviceBlock& block) {
  return FactorCount(block) == 0 ? args.batch.first : args.basis.third;
}
SHAMPOO_DEVICE inline void* DirectionIn(const BasisArgs& args, const DeviceBlock& block) {
  return FactorCount(block) == 0 ? args.batch.second : args.basis.fourth;
}

SHAMPOO_DEVICE inline bool HasRelativeEpsilon(const DeviceBlock& block) {
  return block.is_rotated() && block.second_moment.present();
}

// For each tile, computes the largest element that the second moment will have after the update.
template <typename Real>
struct LargestMomentBody {
  BasisArgs args;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceTile& tile = args.batch.tiles[cta.index()];
    const BasisTile<Real> part(args, tile);
    if (!IsStepped(args.tables, tile.block) || !HasRelativeEpsilon(part.block)) return;
    const FilterScalars<Real> scalars = ScalarsOf(part);
    const Real* const r = part.In(RotatedIn(args, part.block));
    const StateSlot& v = part.block.second_moment;
    const char* const moment = args.tables.state_out + v.offset;
    const uint64_t largest = cta.Largest(part.size, [&](int64_t i) {
      const Real next = NextMoment(scalars, ReadAs<Real>(moment, v.dtype, part.begin + i), r[i]);
      return MagnitudeBits(static_cast<double>(next));
    });
    cta.Once([&] { args.batch.sums[2 * cta.index()] = BitsAs<double>(largest); });
  }
};

struct RaiseEpsilonBody {
  BasisArgs args;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int32_t b = args.batch.blocks[cta.index()];
    const DeviceBlock& block = args.tables.blocks[b];
    if (!IsStepped(args.tables, b) || !HasRelativeEpsilon(block)) return;
    const GroupSettings& settings = args.tables.groups[block.group].settings;
    const double largest = BitsAs<double>(cta.Largest(
        block.tiles, [&](int64_t i) { return MagnitudeBits(args.batch.sums[2 * (block.first_tile + i)]); }));
    cta.Once([&] {
      BasisWork& work = args.basis.work[b];
      work.moment_epsilon += AddedEpsilon(settings, block.computation, work.moment_correction, largest);
    });
  }
};

template <typename Real, typename Rounding>
struct UpdateGraftingBody {
  BasisArgs args;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceTile& tile = args.batch.tiles[cta.index()];
    const BasisTile<Real> part(args, tile);
    const StateSlot& v = part.block.grafting;
    if (!IsStepped(args.tables, tile.block) || !v.present()) return;
    const GraftingScalars scalars = MakeGraftingScalars(part.group.settings, part.own.update);
    const auto decay = static_cast<Real>(scalars.decay);
    const auto weight = static_cast<Real>(scalars.weight);
    const Real* const g = part.In(args.batch.first);
    char* const moment = args.tables.state_out + v.offset;
    const Rounding rounding(args.tables, tile.block, RoundedState::kGrafting);
    cta.ForEach(part.size, [&](int64_t i) {
      const int64_t at = part.begin + i;
      const Real old = ReadAs<Real>(moment, v.dtype, at);
      rounding.Write(moment, v.dtype, at, at, NextAverage(decay, old, weight, g[i] * g[i]));
    });
  }
};

template <typename Real, typename Rounding>
struct FilterInBasesBody {
  BasisArgs args;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceTile& tile = args.batch.tiles[cta.index()];
    const BasisTile<Real> part(args, tile);
    if (!IsStepped(args.tables, tile.block)) return;
    Real* const r = part.In(RotatedIn(args, part.block));
    Real* const d = part.In(DirectionIn(args, part.block));
    // If the gradient only initializes the block, the direction is 0, and this kernel changes no state.
    if (part.own.update < 1) {
      Real* const p = part.In(args.batch.second);
      return cta.ForEach(part.size, [&](int64_t i) { d[i] = p[i] = 0; });
    }
    const FilterScalars<Real> scalars = ScalarsOf(part);
    const StateSlot& e = part.block.filtered_grad;
    const StateSlot& v = part.block.second_moment;
    const bool filters = e.present() && part.group.filter_decay != 0;
    const bool grafts = part.group.grafting != Grafting::kNone;
    char* const average = args.tables.state_out + e.offset;
    char* const moment = args.tables.state_out + v.offset;
    const Rounding filtered_rounding(args.tables, tile.block, RoundedState::kFilteredGrad);
    const Rounding moment_rounding(args.tables, tile.block, RoundedMomentOf(part.block));
    struct Loaded {
      Real gradient, average, moment;
    };
    const auto load = [&](int64_t i) -> Loaded {
      return {r[i], filters ? ReadAs<Real>(average, e.dtype, part.begin + i) : Real{0},
              v.present() ? ReadAs<Real>(moment, v.dtype, part.begin + i) : Real{0}};
    };
    cta.ForEachLoaded(part.size, load, [&](int64_t i, const Loaded& old) {
      const int64_t at = part.begin + i;
      const Real g = old.gradient;
      Real h = g;
      if (filters) {
        filtered_rounding.Write(average, e.dtype, at, at, NextFiltered(scalars, old.average, g));
        h = FilteredGradient(scalars, old.average, g);
      }
      if (v.present()) {
        const Real next = NextMoment(scalars, old.moment, g);
        moment_rounding.Write(moment, v.dtype, at, at, next);
        d[i] = Divided(part, scalars, h, next);
      } else {
        const Real a = ProductOfScales<Real>(args, part.block, part.begin + i, -1);
        d[i] = h * DampedScale(a, static_cast<Real>(part.group.settings.epsilon));
      }
      if (grafts) r[i] = h;
    });
  }

  // Returns h / (v^inverse_exponent + epsilon), where v is corrected for bias.
  SHAMPOO_DEVICE static Real Divided(const BasisTile<Real>& part, const FilterScalars<Real>& scalars, Real h, Real v) {
    const double exponent = part.group.settings.inverse_exponent;
    if (exponent == 0.5) return MomentDirection(scalars, h, v);
    return PowerDirection(exponent, part.own.moment_correction, part.own.moment_epsilon, h, v);
  }
};

template <typename Real>
struct DivideByGraftingBody {
  BasisArgs args;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceTile& tile = args.batch.tiles[cta.index()];
    const BasisTile<Real> part(args, tile);
    if (!IsStepped(args.tables, tile.block)) return;
    const GraftingScalars of_grafting = MakeGraftingScalars(part.group.settings, part.own.update);
    FilterScalars<Real> scalars{};
    scalars.moment_correction = static_cast<Real>(of_grafting.correction);
    scalars.moment_epsilon = static_cast<Real>(of_grafting.epsilon);
    const StateSlot& v = part.block.grafting;
    const char* const moment = args.tables.state_out + v.offset;
    Real* const h = part.In(args.batch.first);
    const double square = cta.Sum(part.size, [&](int64_t i) {
      if (v.present()) h[i] = MomentDirection(scalars, h[i], ReadAs<Real>(moment, v.dtype, part.begin + i));
      return static_cast<double>(h[i]) * static_cast<double>(h[i]);
    });
    cta.Once([&] { args.batch.sums[2 * cta.index()] = square; });
  }
};

}  // namespace

cudaError_t AddRelativeEpsilon(cudaStream_t stream, const BasisArgs& args) {
  const cudaError_t error = LaunchBasis<LargestMomentBody>(stream, args.batch.tile_count, args);
  return error != cudaSuccess ? error : Launch(stream, args.batch.block_count, RaiseEpsilonBody{args});
}

cudaError_t UpdateGrafting(cudaStream_t stream, const BasisArgs& args) {
  return LaunchRounding<UpdateGraftingBody>(stream, args.batch.tile_count, args.tables, args.computation, args);
}

cudaError_t FilterInBases(cudaStream_t stream, const BasisArgs& args) {
  return LaunchRounding<FilterInBasesBody>(stream, args.batch.tile_count, args.tables, args.computation, args);
}

cudaError_t DivideByGrafting(cudaStream_t stream, const BasisArgs& args) {
  return LaunchBasis<DivideByGraftingBody>(stream, args.batch.tile_count, args);
}

}  // namespace shampoo::cuda
