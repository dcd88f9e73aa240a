// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/basis_common.h"
#include "core/rules/basis.h"
#include "core/rules/growth.h"

namespace shampoo::cuda {
namespace {

// Returns whether this step updates the existing factor matrices of a block. Returns false if the step initializes the
// factor matrices.
SHAMPOO_DEVICE inline bool UpdatesKlFactors(const BasisArgs& args, int32_t b) {
  return IsStepped(args.tables, b) && args.basis.work[b].is_first == 0 && args.basis.work[b].updates_factors != 0;
}

// Computes the next eigenvalues, with one CTA for each eigenvalue.
template <typename Real>
struct NextEigenvaluesBody {
  BasisArgs args;
  BasisRun run;
  int64_t d;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BasisFactor<Real> factor(args, run, cta.index() / d);
    if (!UpdatesKlFactors(args, factor.index)) return;
    const DeviceBlock& block = factor.block;
    const int k = run.dim;
    const int64_t row = cta.index() % d;
    int64_t after = 1;
    for (int i = k + 1; i < block.order; ++i) after *= block.shape[i];
    const void* const rotated = args.basis.third;
    const Real* const r = static_cast<const Real*>(rotated) + block.at;
    const double sum = cta.Sum(block.elements / d, [&](int64_t i) {
      const int64_t element = (i / after * d + row) * after + i % after;
      const Real scaled = r[element] * ProductOfScales<Real>(args, block, element, k);
      return static_cast<double>(scaled) * static_cast<double>(scaled);
    });
    cta.Once([&] {
      const double decay = args.basis.work[factor.index].eigenvalue_decay;
      const auto s = static_cast<double>(ScalesOf<Real>(args, block, k)[row]);
      const double next = NextEigenvalue(decay, s, d, block.elements, sum);
      factor.Sums(args)[row] = next;
      if (!IsFinite(next)) args.tables.work[factor.index].states_fit = 0;
    });
  }
};

template <typename Real>
struct SquareWhitenedBody {
  BasisArgs args;
  BasisRun run;
  int64_t tiles;
  const void* whitened;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceTile tile{args.batch.blocks[run.first + cta.index() / tiles],
                          static_cast<int32_t>(cta.index() % tiles)};
    if (!UpdatesKlFactors(args, tile.block)) return;
    const BasisTile<Real> part(args, tile);
    const double square = SumOfSquares(cta, part.In(whitened), part.size);
    cta.Once([&] { args.batch.sums[2 * (part.block.first_tile + tile.index)] = square; });
  }
};

struct CheckWhitenedBody {
  BasisArgs args;
  BasisRun run;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BasisFactor<double> factor(args, run, cta.index());
    if (!UpdatesKlFactors(args, factor.index)) return;
    const DeviceBlock& block = factor.block;
    const double square = cta.Sum(block.tiles, [&](int64_t i) { return args.batch.sums[2 * (block.first_tile + i)]; });
    const double weight = args.basis.work[factor.index].factor_weight * MeanWeight(factor.d, block.elements);
    const bool fits = TermFits(square, weight, block.computation, block.factor[run.dim].dtype);
    cta.Once([&] {
      if (!fits) args.tables.work[factor.index].states_fit = 0;
    });
  }
};

// With kl_init=auto: computes the eigenvalues of a block from the gradient if AreFactorsNegligible() is true.
template <typename Real>
struct StartEigenvaluesBody {
  BasisArgs args;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int32_t b = args.batch.blocks[cta.index()];
    const DeviceBlock& block = args.tables.blocks[b];
    const int factors = FactorCount(block);
    if (!IsStepped(args.tables, b) || factors == 0 || !AreFactorsNegligible(cta, block)) return;
    const Real* const gradient = static_cast<const Real*>(args.batch.first) + block.at;
    const double square = SumOfSquares(cta, gradient, block.elements);
    const double scale = FirstEigenvalueScale(square, block.elements, factors, block.computation);
    for (int k = 0; k < block.factors; ++k) {
      if (!block.factor[k].present()) continue;
      Real* const scales = ScalesOf<Real>(args, block, k);
      cta.ForEach(block.shape[k], [&](int64_t i) { scales[i] = static_cast<Real>(scale); });
    }
  }

  // Returns whether IsNegligible() is true for the mean eigenvalue of each factor matrix of a block. This is the case
  // if all gradients were near 0, or if the matrices have decayed to values near 0.
  SHAMPOO_DEVICE bool AreFactorsNegligible(const Cta& cta, const DeviceBlock& block) const {
    for (int k = 0; k < block.factors; ++k) {
      const StateSlot& slot = block.factor[k];
      if (!slot.present()) continue;
      const char* const factor = args.tables.state_out + slot.offset;
      const double trace = cta.Sum(block.shape[k], [&](int64_t i) {
        return static_cast<double>(ReadAs<Real>(factor, slot.dtype, KeptAt(slot.form, block.shape[k], i, i)));
      });
      if (!IsNegligible(trace / static_cast<double>(block.shape[k]), block.computation)) return false;
    }
    return true;
  }
};

template <typename Real>
struct UpdateBasisFactorBody {
  BasisArgs args;
  int32_t initializes;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceMatrixTile& tile = args.batch.matrix_tiles[cta.index()];
    const DeviceBlock& block = args.tables.blocks[tile.block];
    const BasisWork& work = args.basis.work[tile.block];
    if (!UpdatesStates(args.tables, tile.block)) return;
    if (work.updates_factors == 0 || (work.is_first != 0) != (initializes != 0)) return;
    const GroupSettings& settings = args.tables.groups[block.group].settings;
    double of_dim = work.factor_weight;
    if (settings.factor_correction == FactorTerm::kKl) {
      of_dim *= MeanWeight(block.shape[tile.dim], block.elements);
      const auto scale = static_cast<double>(ScalesOf<Real>(args, block, tile.dim)[0]);
      if (work.is_first != 0) of_dim *= FirstTermScale(settings, scale, FactorCount(block));
    }
    const MatrixTile part(tile, block.shape[tile.dim]);
    const StateSlot& slot = block.factor[tile.dim];
    const Real* const product = static_cast<const Real*>(args.batch.matrices) + block.matrix_at[tile.dim];
    AverageFactor(cta, part, slot, args.tables.state_out + slot.offset, work.factor_decay, of_dim, product);
  }
};

template <typename Real>
struct StoreEigenvaluesBody {
  BasisArgs args;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int32_t b = args.batch.blocks[cta.index()];
    const DeviceBlock& block = args.tables.blocks[b];
    if (!UpdatesKlFactors(args, b) || args.tables.work[b].states_fit == 0) return;
    const GroupSettings& settings = args.tables.groups[block.group].settings;
    for (int k = 0; k < block.factors; ++k) {
      if (!block.factor[k].present()) continue;
      const int64_t d = block.shape[k];
      const double* const next = args.basis.sums + 2 * block.vector_at[k];
      const double mean = cta.Sum(d, [&](int64_t i) { return next[i]; }) / static_cast<double>(d);
      Real* const scales = ScalesOf<Real>(args, block, k);
      const auto has_term = [&] { return HasAnyTerm(cta, b, d, next, scales); };
      if (!ReplacesEigenvalues(settings, mean, block.computation, has_term)) continue;
      const double cap = KlCap(settings, d, mean);
      cta.ForEach(d, [&](int64_t i) { scales[i] = static_cast<Real>(KlScale(next[i], cap)); });
    }
  }

  // Returns whether the gradient has contributed to the moving average of any eigenvalue of a dim.
  SHAMPOO_DEVICE bool HasAnyTerm(const Cta& cta, int32_t b, int64_t d, const double* next, const Real* scales) const {
    const double decay = args.basis.work[b].eigenvalue_decay;
    return cta.First(d, [&](int64_t i) { return HasTerm(decay, static_cast<double>(scales[i]), next[i]); }) < d;
  }
};

}  // namespace

cudaError_t NextEigenvalues(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, int64_t d) {
  return LaunchBasis<NextEigenvaluesBody>(stream, run.count * d, args, run, d);
}

cudaError_t CheckWhitened(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, int64_t tiles,
                          const void* whitened) {
  const cudaError_t error = LaunchBasis<SquareWhitenedBody>(stream, run.count * tiles, args, run, tiles, whitened);
  return error != cudaSuccess ? error : Launch(stream, run.count, CheckWhitenedBody{args, run});
}

cudaError_t StartEigenvalues(cudaStream_t stream, const BasisArgs& args) {
  return LaunchBasis<StartEigenvaluesBody>(stream, args.batch.block_count, args);
}

cudaError_t UpdateBasisFactors(cudaStream_t stream, const BasisArgs& args, bool initializes) {
  return LaunchBasis<UpdateBasisFactorBody>(stream, args.batch.matrix_tile_count, args, initializes ? 1 : 0);
}

cudaError_t StoreEigenvalues(cudaStream_t stream, const BasisArgs& args) {
  return LaunchBasis<StoreEigenvaluesBody>(stream, args.batch.block_count, args);
}

}  // namespace shampoo::cuda
