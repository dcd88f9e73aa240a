// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/muon_kernels.h"
#include "core/backend/cuda/plugin/orthogonalize_common.h"
#include "core/rules/muon.h"

namespace shampoo::cuda {
namespace {

SHAMPOO_DEVICE inline bool HasMomentOfDirection(const Tables& tables, int32_t b) {
  return IsOrthogonalized(tables, b) && tables.blocks[b].direction_moment.present();
}

template <typename Real>
struct OrthogonalNormBody {
  MuonArgs args;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BlockTile<Real> part(args.tables, args.batch, cta.index());
    if (!HasMomentOfDirection(args.tables, part.tile.block)) return;
    const Real* const d = part.In(args.batch.second);
    const double square = cta.SumLoaded(
        part.size, [&](int64_t i) { return d[i]; },
        [&](int64_t, Real value) { return static_cast<double>(value) * static_cast<double>(value); });
    cta.Once([&] { args.batch.sums[2 * cta.index() + 1] = square; });
  }
};

struct KeepNormBody {
  MuonArgs args;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int32_t b = args.batch.blocks[cta.index()];
    if (!HasMomentOfDirection(args.tables, b)) return;
    const DeviceBlock& block = args.tables.blocks[b];
    const double square =
        cta.Sum(block.tiles, [&](int64_t i) { return args.batch.sums[2 * (block.first_tile + i) + 1]; });
    cta.Once([&] { args.tables.work[b].orthogonal_norm = sqrt(square); });
  }
};

// Returns whether the step updates the second moments of a block with its direction and divides the direction by their
// square roots (key second_moment). It does neither if the direction is not finite, because second moments must stay
// finite. A later kernel then skips the update of the block.
SHAMPOO_DEVICE inline bool DividesDirection(const Tables& tables, int32_t b) {
  return HasMomentOfDirection(tables, b) && IsFinite(tables.work[b].orthogonal_norm);
}

template <typename Real>
struct MomentScalars {
  Real decay, weight, epsilon;

  SHAMPOO_DEVICE explicit MomentScalars(const GroupSettings& settings)
      : decay(static_cast<Real>(settings.beta2)),
        weight(static_cast<Real>(WeightFor(settings.beta2))),
        epsilon(static_cast<Real>(settings.epsilon)) {}
};

// Updates the second moments of rows or of columns, and writes the numbers by which DivideDirectionBody divides these
// rows or columns. One CTA processes one row, or up to kColumnsOfLine columns.
template <typename Real>
struct LineBody {
  MuonArgs args;
  int64_t lines;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int32_t b = args.batch.blocks[cta.index() / lines];
    const DeviceBlock& block = args.tables.blocks[b];
    if (!DividesDirection(args.tables, b) || block.moment_of_direction == DirectionMoment::kElement) return;
    const Real* const d = static_cast<const Real*>(args.batch.second) + block.at;
    const int64_t line = cta.index() % lines;
    const int64_t rows = block.shape[0];
    const int64_t columns = block.shape[1];
    if (block.means_are_of_stored_rows != 0) {
      if (line >= rows) return;
      const double square = cta.SumLoaded(
          columns, [&](int64_t i) { return d[line * columns + i]; },
          [&](int64_t, Real value) { return static_cast<double>(value) * static_cast<double>(value); });
      return cta.Once([&] { Update(block, line, square, columns); });
    }
    const int64_t first = line * kColumnsOfLine;
    if (first >= columns) return;
    const int64_t count = columns - first < kColumnsOfLine ? columns - first : kColumnsOfLine;
    cta.ForEach(count, [&](int64_t i) {
      double square = 0;
      for (int64_t row = 0; row < rows; ++row) {
        const auto value = static_cast<double>(d[row * columns + first + i]);
        square += value * value;
      }
      Update(block, first + i, square, rows);
    });
  }

  SHAMPOO_DEVICE void Update(const DeviceBlock& block, int64_t line, double square, int64_t count) const {
    const MomentScalars<Real> scalars(args.tables.groups[block.scalars].settings);
    Real* const moment = reinterpret_cast<Real*>(args.tables.state_out + block.direction_moment.offset) + line;
    *moment =
        NextAverage(scalars.decay, *moment, scalars.weight, static_cast<Real>(square / static_cast<double>(count)));
    args.divisors[block.vector_at[0] + line] = static_cast<double>(SquareRootOf(*moment) + scalars.epsilon);
  }
};

template <typename Real, typename Rounding>
struct DivideDirectionBody {
  MuonArgs args;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BlockTile<Real> part(args.tables, args.batch, cta.index());
    if (!DividesDirection(args.tables, part.tile.block)) return;
    Real* const d = part.In(args.batch.second);
    const DeviceBlock& block = part.block;
    if (block.moment_of_direction == DirectionMoment::kElement) return DivideElements(cta, part, d);
    const double* const divisors = args.divisors + block.vector_at[0];
    const auto columns = static_cast<uint32_t>(block.shape[1]);
    cta.ForEach(part.size, [&](int64_t i) {
      const auto at = static_cast<uint32_t>(part.begin + i);  // a block has fewer than 2^31 elements
      const uint32_t line = block.means_are_of_stored_rows != 0 ? at / columns : at % columns;
      d[i] = DividedByMoment(d[i], static_cast<Real>(divisors[line]));
    });
  }

  SHAMPOO_DEVICE void DivideElements(const Cta& cta, const BlockTile<Real>& part, Real* d) const {
    const MomentScalars<Real> scalars(part.group.settings);
    const StateSlot& v = part.block.direction_moment;
    char* const moment = args.tables.state_out + v.offset;
    const Rounding rounding(args.tables, part.tile.block, RoundedState::kMuonMoment);
    cta.ForEach(part.size, [&](int64_t i) {
      const int64_t at = part.begin + i;
      const Real next = NextAverage(scalars.decay, ReadAs<Real>(moment, v.dtype, at), scalars.weight, d[i] * d[i]);
      rounding.Write(moment, v.dtype, at, at, next);
      d[i] = DividedByMoment(d[i], SquareRootOf(next) + scalars.epsilon);
    });
  }
};

}  // namespace

cudaError_t DivideByMoments(cudaStream_t stream, const MuonArgs& args, int64_t lines) {
  cudaError_t error = LaunchReal<OrthogonalNormBody>(stream, args.computation, args.batch.tile_count, args);
  if (error == cudaSuccess) error = Launch(stream, args.batch.block_count, KeepNormBody{args});
  if (error == cudaSuccess) {
    error = LaunchReal<LineBody>(stream, args.computation, args.batch.block_count * lines, args, lines);
  }
  if (error == cudaSuccess) {
    error = LaunchRounding<DivideDirectionBody>(stream, args.batch.tile_count, args.tables, args.computation, args);
  }
  return error;
}

}  // namespace shampoo::cuda
