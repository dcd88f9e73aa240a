// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/roots_rules.h"

namespace shampoo::cuda {
namespace {

template <typename Root>
struct PairBody {
  RootChunk chunk;
  const void* qv;
  const void* l;
  void* pair;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const Root* const of_signs = VectorOf<Root>(chunk, qv, cta.index());
    const Root* const eigenvalues = VectorOf<Root>(chunk, l, cta.index());
    Root* const to = static_cast<Root*>(pair) + cta.index() * chunk.n * 2;
    cta.ForEach(chunk.n, [&](int64_t i) {
      to[2 * i] = of_signs[i];
      to[2 * i + 1] = of_signs[i] * eigenvalues[i];
    });
  }
};

SHAMPOO_DEVICE inline void Fail(RootMember* member, RootFailure failure) {
  if (member->failure == RootFailure::kNone) member->failure = failure;
}

// Computes the diagonal of the root of a diagonal matrix. First computes the root without the clamp (RootSpec::clamp).
// If an element of the result is not finite, computes all elements again with the clamp.
template <typename Real, typename Root>
SHAMPOO_DEVICE inline void FromDiagonal(const Cta& cta, const RootChunk& chunk, Root* to) {
  const int64_t n = chunk.n;
  const Real* const matrix = static_cast<const Real*>(chunk.matrices) + cta.index() * chunk.stride;
  const RootMember& member = chunk.members[cta.index()];
  const double divisor = member.divisor;
  const int scale = chunk.spec.relative_epsilon > 0 ? member.scale : 0;
  const auto element = [&](int64_t i) { return ldexp(static_cast<double>(matrix[i * n + i]) / divisor, -scale); };
  if (member.zero != 0) return cta.ForEach(n, [&](int64_t i) { to[i] = Root{1}; });
  const double largest = BitsAs<double>(cta.Largest(n, [&](int64_t i) { return MagnitudeBits(fmax(element(i), 0)); }));
  const double least = -BitsAs<double>(cta.Largest(n, [&](int64_t i) { return MagnitudeBits(fmin(element(i), 0)); }));
  const RootOfEigenvalue plain(chunk.spec, member.epsilon, chunk.spec.exponent, scale, 0, largest, 0);
  const RootOfEigenvalue clamped(chunk.spec, member.epsilon, chunk.spec.exponent, scale, least, largest, 0);
  const bool clamp = cta.First(n, [&](int64_t i) { return !IsFinite(plain(element(i))); }) < n;
  const int64_t first_not_finite = clamp ? cta.First(n, [&](int64_t i) { return !IsFinite(clamped(element(i))); }) : n;
  cta.ForEach(n, [&](int64_t i) { to[i] = static_cast<Root>(clamp ? clamped(element(i)) : plain(element(i))); });
  cta.Once([&] {
    RootMember& own = chunk.members[cta.index()];
    if (first_not_finite < n) Fail(&own, RootFailure::kSingular);
    own.shift = chunk.spec.pseudo_inverse ? 0 : own.epsilon - (clamp ? ldexp(least, scale) : 0);
  });
}

template <typename Root>
SHAMPOO_DEVICE inline void DiagonalOfRoot(const Cta& cta, const RootChunk& chunk, void* roots) {
  Root* const to = static_cast<Root*>(roots) + cta.index() * chunk.n;
  if (chunk.computation == Dtype::kF64) return FromDiagonal<double>(cta, chunk, to);
  return FromDiagonal<float>(cta, chunk, to);
}

// The kernel of TransformEigenvalues (roots_chunk.h).
template <typename Root>
struct TransformBody {
  RootChunk chunk;
  const void* eigenvalues;
  const void* product;
  const void* returned;
  void* roots;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootMember& member = chunk.members[cta.index()];
    if (member.shortcut != 0) return DiagonalOfRoot<Root>(cta, chunk, roots);
    // For every finite 1 x 1 matrix, `shortcut` is 1. For any other 1 x 1 matrix, member.failure is already set.
    if (chunk.n == 1) return;
    RootFailure failure = chunk.info[cta.index()] != 0 ? RootFailure::kSolver : RootFailure::kNone;
    if (!DecompositionFits<Root>(cta, chunk, eigenvalues, product, returned) && failure == RootFailure::kNone)
      failure = RootFailure::kWrongResult;
    const bool finite = FromEigenvalues(cta);
    if (!finite && failure == RootFailure::kNone) failure = RootFailure::kSingular;
    cta.Once([&] { Fail(&chunk.members[cta.index()], failure); });
  }

  SHAMPOO_DEVICE bool FromEigenvalues(const Cta& cta) const {
    const int64_t n = chunk.n;
    const Root* const l = VectorOf<Root>(chunk, eigenvalues, cta.index());
    Root* const to = static_cast<Root*>(roots) + cta.index() * n;
    // X = R^T R, where row i of R is root_of(l_i) times eigenvector i.
    const RootMember& member = chunk.members[cta.index()];
    const RootOfEigenvalue root_of(chunk.spec, member.epsilon, chunk.spec.exponent / 2, member.scale,
                                   static_cast<double>(l[0]), static_cast<double>(l[n - 1]), 0);
    const int64_t first_not_finite =
        cta.First(n, [&](int64_t i) { return !IsFinite(root_of(static_cast<double>(l[i]))); });
    cta.ForEach(n, [&](int64_t i) { to[i] = static_cast<Root>(root_of(static_cast<double>(l[i]))); });
    cta.Once([&] {
      const double clamped = chunk.spec.clamp ? ldexp(fmin(static_cast<double>(l[0]), 0.0), member.scale) : 0;
      chunk.members[cta.index()].shift = chunk.spec.pseudo_inverse ? 0 : member.epsilon - clamped;
    });
    return first_not_finite == n;
  }
};

template <typename Root>
struct DiagonalBody {
  RootChunk chunk;
  void* roots;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    if (chunk.members[cta.index()].shortcut != 0) DiagonalOfRoot<Root>(cta, chunk, roots);
  }
};

template <typename Root>
struct ScaleRowsBody {
  RootChunk chunk;
  const void* roots;
  void* q;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootPiece piece = PieceAt(chunk, cta.index());
    const int64_t n = chunk.n;
    const Root* const factors = VectorOf<Root>(chunk, roots, piece.member);
    Root* const rows = MatrixOf<Root>(chunk, q, piece.member) + piece.first * n;
    cta.ForEach(piece.rows * n, [&](int64_t i) { rows[i] *= factors[PlaceAt(piece, n, i).row]; });
  }
};

}  // namespace

cudaError_t PairProbe(cudaStream_t stream, const RootChunk& chunk, const void* qv, const void* l, void* pair) {
  return LaunchRoots<PairBody>(stream, chunk.count, chunk, qv, l, pair);
}

cudaError_t TransformEigenvalues(cudaStream_t stream, const RootChunk& chunk, const void* l, const void* av,
                                 const void* back, void* roots) {
  return LaunchRoots<TransformBody>(stream, chunk.count, chunk, l, av, back, roots);
}

cudaError_t DiagonalRoots(cudaStream_t stream, const RootChunk& chunk, void* roots) {
  return LaunchRoots<DiagonalBody>(stream, chunk.count, chunk, roots);
}

cudaError_t ScaleRows(cudaStream_t stream, const RootChunk& chunk, const void* roots, void* q) {
  return LaunchRoots<ScaleRowsBody>(stream, chunk.count * chunk.pieces, chunk, roots, q);
}

}  // namespace shampoo::cuda
