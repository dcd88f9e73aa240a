// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/basis_common.h"
#include "core/rules/basis.h"
#include "core/rules/eigenvalue.h"

namespace shampoo::cuda {
namespace {

SHAMPOO_DEVICE inline bool IsOnDiagonal(int64_t i, int64_t d) { return i % (d + 1) == 0; }

template <typename Real>
SHAMPOO_DEVICE inline void SetIdentity(const Cta& cta, int64_t d, Real* matrix) {
  cta.ForEach(d * d, [&](int64_t i) { matrix[i] = IsOnDiagonal(i, d) ? Real{1} : Real{0}; });
}

template <typename Real>
struct ScaleFactorBody {
  BasisArgs args;
  BasisRun run;
  int32_t keeps_zeros;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BasisFactor<Real> factor(args, run, cta.index());
    const int64_t d = factor.d;
    Real* const a = factor.In(args.batch.matrices);
    const uint64_t off_diagonal = cta.Largest(
        d * d, [&](int64_t i) { return IsOnDiagonal(i, d) ? 0 : MagnitudeBits(static_cast<double>(a[i])); });
    const uint64_t diagonal =
        cta.Largest(d, [&](int64_t i) { return MagnitudeBits(static_cast<double>(a[i * d + i])); });
    const double largest = BitsAs<double>(off_diagonal > diagonal ? off_diagonal : diagonal);
    const double divisor = IsStepped(args.tables, factor.index) ? args.basis.work[factor.index].divisor : 1;
    BasisMember member{};
    member.failure = IsNan(largest)       ? RootFailure::kNanInput
                     : !IsFinite(largest) ? RootFailure::kInfInput
                                          : RootFailure::kNone;
    const bool is_finite = member.failure == RootFailure::kNone;
    member.diagonal = is_finite && off_diagonal == 0 ? 1 : 0;
    const bool is_zero = IsNegligible(largest * divisor, factor.block.computation);
    member.identity = is_finite && IsBasisIdentity(keeps_zeros != 0, d, is_zero) ? 1 : 0;
    int32_t* const order = factor.Order(args);
    cta.ForEach(d, [&](int64_t i) { order[i] = static_cast<int32_t>(i); });
    cta.Once([&] { factor.member = member; });
    if (!is_finite || member.identity != 0) return SetIdentity(cta, d, a);
    const double epsilon = args.tables.groups[factor.block.group].settings.basis_epsilon;
    const int scale = ScaleExponent(largest, epsilon);
    const ElementScaling<Real> scaled(scale, 1);
    const auto shift = static_cast<Real>(ldexp(epsilon, -scale));
    cta.ForEach(d * d, [&](int64_t i) {
      const Real value = scaled(a[i]);
      a[i] = IsOnDiagonal(i, d) ? value + shift : value;
    });
  }
};

template <typename Real>
struct CompareBasisBody {
  BasisArgs args;
  BasisRun run;
  int32_t is_previous;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BasisFactor<Real> factor(args, run, cta.index());
    const int64_t d = factor.d;
    const void* const rotated = args.basis.rotated;
    const void* const matrices = args.batch.matrices;
    const Real* const b = factor.In(rotated);
    const Real* const a = factor.In(matrices);
    const double off_diagonal = cta.Sum(d * d, [&](int64_t i) {
      const double value = IsOnDiagonal(i, d) ? 0 : static_cast<double>(b[i]);
      return value * value;
    });
    const double all = SumOfSquares(cta, a, d * d);
    const double tolerance = args.tables.groups[factor.block.group].settings.basis_tolerance;
    const bool is_accurate = IsBasisAccurate(tolerance, off_diagonal, all);
    cta.Once([&] {
      if (!is_accurate || factor.member.is_reached != 0) return;
      factor.member.is_reached = 1;
      factor.member.is_kept = is_previous;
    });
  }
};

template <typename Real>
struct FinishBasisBody {
  BasisArgs args;
  BasisRun run;
  int32_t is_solved;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BasisFactor<Real> factor(args, run, cta.index());
    const int64_t d = factor.d;
    const bool is_stepped = IsStepped(args.tables, factor.index);
    cta.Once([&] { is_stepped ? Complete(factor) : Keep(factor); });
    Real* const q = factor.In(args.batch.matrices);
    if (factor.member.is_kept != 0) {
      const void* const bases = args.basis.bases;
      const Real* const previous = factor.In(bases);
      cta.ForEach(d * d, [&](int64_t i) { q[i] = previous[i]; });
    } else if (factor.member.identity != 0) {
      SetIdentity(cta, d, q);
    }
  }

  SHAMPOO_DEVICE static void Keep(const BasisFactor<Real>& factor) { factor.member.is_kept = 1; }

  SHAMPOO_DEVICE void Complete(const BasisFactor<Real>& factor) const {
    BasisMember& member = factor.member;
    RootStatus& status = factor.Status(args);
    if (is_solved == 0) {
      status = RootStatus{};
      status.kind = RootKind::kEigen;
      status.converged = 1;
    }
    if (member.failure != RootFailure::kNone) status.failure = member.failure;
    if (member.identity != 0) {
      status.failure = RootFailure::kNone;
      status.kind = factor.d == 1 ? RootKind::kScalar : RootKind::kDiagonal;
    }
    if (member.is_kept != 0) status.failure = RootFailure::kNone;
    status.diagonal_input = member.diagonal;
    if (status.failure != RootFailure::kNone) member.is_kept = 1;
  }
};

template <typename Real>
struct FixRotationBody {
  BasisArgs args;
  BasisRun run;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BasisFactor<Real> factor(args, run, cta.index());
    if (factor.member.is_kept != 0) SetIdentity(cta, factor.d, factor.In(args.basis.rotations));
  }
};

template <typename Real>
struct RotateMomentBody {
  BasisArgs args;
  BasisRun run;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BasisFactor<Real> factor(args, run, cta.index());
    if (factor.member.is_kept != 0) return;  // the matrix in `rotations` is I
    const int64_t d = factor.d;
    const GroupSettings& settings = args.tables.groups[factor.block.group].settings;
    Real* const rotation = factor.In(args.basis.rotations);
    if (settings.basis_transport == BasisTransport::kPermute) {
      const int32_t* const order = factor.Order(args);
      return cta.ForEach(d * d, [&](int64_t i) { rotation[i] = i / d == order[i % d] ? Real{1} : Real{0}; });
    }
    cta.ForEach(d * d, [&](int64_t i) { rotation[i] *= rotation[i]; });
    const bool averages = settings.kl_eigenvalues == KlEigenvalues::kEma;
    if (settings.factor_correction != FactorTerm::kKl || !averages) return;
    Real* const scales = ScalesOf<Real>(args, factor.block, run.dim);
    double* const next = factor.Sums(args);
    cta.ForEach(d, [&](int64_t j) {
      next[j] = 0;
      for (int64_t i = 0; i < d; ++i) {
        const auto s = static_cast<double>(scales[i]);
        next[j] += TransportedTerm(static_cast<double>(rotation[i * d + j]), s);
      }
    });
    cta.ForEach(d, [&](int64_t j) { scales[j] = static_cast<Real>(TransportedScale(next[j])); });
  }
};

template <typename Real>
struct StoreBasesBody {
  BasisArgs args;
  TaskSelection selection;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceMatrixTile& tile = args.batch.matrix_tiles[cta.index()];
    if (!IsSelected(args, tile.block, selection)) return;
    const DeviceBlock& block = args.tables.blocks[tile.block];
    const MatrixTile part(tile, block.shape[tile.dim]);
    const Real* const from = static_cast<const Real*>(args.batch.matrices) + block.matrix_at[tile.dim];
    auto* const state = reinterpret_cast<Real*>(args.tables.state_out + block.basis[tile.dim].offset);
    Real* const copy = static_cast<Real*>(args.basis.bases) + block.matrix_at[tile.dim];
    ForEachOfBoth(cta, part, [&](int64_t r, int64_t c) {
      const int64_t at = r * part.d + c;
      state[at] = from[at];
      copy[at] = from[at];
    });
  }
};

template <typename Real>
struct TakeEigenvaluesBody {
  BasisArgs args;
  BasisRun run;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BasisFactor<Real> factor(args, run, cta.index());
    if (!IsStepped(args.tables, factor.index) || factor.Status(args).failure != RootFailure::kNone) return;
    const int64_t d = factor.d;
    const void* const bases = args.basis.bases;
    const void* const products = args.basis.products;
    const Real* const q = factor.In(bases);
    const Real* const fq = factor.In(products);
    // This kernel runs only with kl_eigenvalues=basis, which requires basis_order=before. With this order,
    // kl_init=auto means 0.1, so StartsFromGradient() is false, and KlCap() ignores its last argument.
    const double cap = KlCap(args.tables.groups[factor.block.group].settings, d, 1);
    Real* const scales = ScalesOf<Real>(args, factor.block, run.dim);
    cta.ForEach(d, [&](int64_t j) {
      double eigenvalue = 0;
      for (int64_t i = 0; i < d; ++i) {
        eigenvalue += static_cast<double>(q[i * d + j]) * static_cast<double>(fq[i * d + j]);
      }
      scales[j] = static_cast<Real>(KlScale(eigenvalue, cap));
    });
  }
};

struct MarkBasesBody {
  BasisArgs args;
  TaskSelection selection;
  int64_t ticket;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    cta.ForEach(args.batch.block_count, [&](int64_t i) {
      const int32_t b = args.batch.blocks[i];
      if (!IsSelected(args, b, selection)) return;
      const DeviceBlock& block = args.tables.blocks[b];
      for (int k = 0; k < block.factors; ++k) args.tables.roots[block.root_at[k]].ticket = ticket;
    });
  }
};

}  // namespace

cudaError_t ScaleFactors(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, bool keeps_zeros) {
  return LaunchBasis<ScaleFactorBody>(stream, run.count, args, run, keeps_zeros ? 1 : 0);
}

cudaError_t CompareBases(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, bool is_previous) {
  return LaunchBasis<CompareBasisBody>(stream, run.count, args, run, is_previous ? 1 : 0);
}

cudaError_t FinishBases(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, bool is_solved) {
  return LaunchBasis<FinishBasisBody>(stream, run.count, args, run, is_solved ? 1 : 0);
}

cudaError_t FixRotations(cudaStream_t stream, const BasisArgs& args, const BasisRun& run) {
  return LaunchBasis<FixRotationBody>(stream, run.count, args, run);
}

cudaError_t RotateMoments(cudaStream_t stream, const BasisArgs& args, const BasisRun& run) {
  return LaunchBasis<RotateMomentBody>(stream, run.count, args, run);
}

cudaError_t StoreBases(cudaStream_t stream, const BasisArgs& args, TaskSelection selection) {
  return LaunchBasis<StoreBasesBody>(stream, args.batch.matrix_tile_count, args, selection);
}

cudaError_t TakeEigenvalues(cudaStream_t stream, const BasisArgs& args, const BasisRun& run) {
  return LaunchBasis<TakeEigenvaluesBody>(stream, run.count, args, run);
}

cudaError_t MarkBases(cudaStream_t stream, const BasisArgs& args, TaskSelection selection, int64_t ticket) {
  return Launch(stream, 1, MarkBasesBody{args, selection, ticket});
}

}  // namespace shampoo::cuda
