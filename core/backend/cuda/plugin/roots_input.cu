// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/roots_rules.h"
#include "core/rules/cans_scalars.h"
#include "core/rules/coupled_scalars.h"

namespace shampoo::cuda {
namespace {

template <typename Real>
struct InspectPieceBody {
  RootChunk chunk;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootPiece piece = PieceAt(chunk, cta.index());
    const int64_t n = chunk.n;
    const Real* const rows = static_cast<const Real*>(chunk.matrices) + piece.member * chunk.stride + piece.first * n;
    const uint64_t off_diagonal = cta.Largest(piece.rows * n, [&](int64_t i) {
      return PlaceAt(piece, n, i).on_diagonal() ? 0 : MagnitudeBits(static_cast<double>(rows[i]));
    });
    const uint64_t diagonal = cta.Largest(
        piece.rows, [&](int64_t i) { return MagnitudeBits(static_cast<double>(rows[i * n + piece.first + i])); });
    const double trace = cta.Sum(piece.rows, [&](int64_t i) {
      return static_cast<double>(rows[i * n + piece.first + i]) / static_cast<double>(n);
    });
    cta.Once([&] {
      RootPartial& partial = chunk.partials[cta.index()];
      partial.first_magnitude = off_diagonal;
      partial.second_magnitude = diagonal;
      partial.trace = trace;
    });
  }
};

struct BeginMemberBody {
  RootChunk chunk;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootPartial* const partials = chunk.partials + cta.index() * chunk.pieces;
    const uint64_t off_diagonal = cta.Largest(chunk.pieces, [&](int64_t i) { return partials[i].first_magnitude; });
    const uint64_t diagonal = cta.Largest(chunk.pieces, [&](int64_t i) { return partials[i].second_magnitude; });
    const double trace = cta.Sum(chunk.pieces, [&](int64_t i) { return partials[i].trace; });
    cta.Once([&] { chunk.members[cta.index()] = Begin(cta.index(), off_diagonal, diagonal, trace); });
  }

  SHAMPOO_DEVICE bool MayBeDiagonal(int64_t index) const {
    if (chunk.spec.may_be_diagonal) return true;
    if (chunk.compared != nullptr) return chunk.compared[index].kind == RootKind::kDiagonal;
    if (chunk.may_be_diagonal == nullptr) return false;
    return *chunk.may_be_diagonal[index] != 0;
  }
  SHAMPOO_DEVICE RootMember Begin(int64_t index, uint64_t off_diagonal, uint64_t diagonal, double trace) const {
    const RootSpec& spec = chunk.spec;
    const double magnitude = BitsAs<double>(off_diagonal > diagonal ? off_diagonal : diagonal);
    RootMember member{};
    // `trace` is the mean eigenvalue before the bias correction, which divides by *chunk.divisor. `trace` does not
    // overflow. The sum of the corrected eigenvalues may overflow to infinity, which TraceDivisor() accepts.
    const double sum = trace / *chunk.divisor * static_cast<double>(chunk.n);
    member.divisor = *chunk.divisor * TraceDivisor(spec, sum);
    const double largest = magnitude / member.divisor;
    member.converged = 1;
    member.factor = 1;
    member.diagonal = !IsNan(magnitude) && off_diagonal == 0;
    if (IsNan(magnitude)) {
      member.failure = RootFailure::kNanInput;
    } else if (!IsFinite(largest)) {
      member.failure = RootFailure::kInfInput;
    }
    const bool finite = member.failure == RootFailure::kNone;
    const bool is_relative = spec.relative_epsilon > 0;
    // A copy of the spec in which `epsilon` is the value for this matrix (ResolvedEpsilon).
    RootSpec resolved = spec;
    resolved.epsilon = finite || !is_relative ? ResolvedEpsilon(spec, trace / member.divisor) : 0;
    if (chunk.compared != nullptr) resolved.epsilon = chunk.compared[index].epsilon;
    member.epsilon = resolved.epsilon;
    member.zero = is_relative && finite && IsNegligible(magnitude, chunk.computation);
    if (spec.method == RootMethod::kEigen || spec.method == RootMethod::kCans) {
      member.kind = spec.method == RootMethod::kEigen ? RootKind::kEigen : RootKind::kCans;
      member.shortcut = finite && (chunk.n == 1 || member.zero || (member.diagonal != 0 && MayBeDiagonal(index)));
      if (member.shortcut != 0) {
        member.kind = chunk.n == 1 ? RootKind::kScalar : RootKind::kDiagonal;
        resolved.method = RootMethod::kEigen;
      }
      if (member.kind == RootKind::kCans) {
        member.iterations = CansPasses(spec) * static_cast<int32_t>(kCansSteps.size());
      }
    } else {
      const bool higher = spec.method == RootMethod::kHigherOrder;
      member.kind = higher ? RootKind::kHigherOrder : RootKind::kNewton;
      if (member.zero) member.kind = chunk.n == 1 ? RootKind::kScalar : RootKind::kDiagonal;
    }
    member.replaced = !finite || member.shortcut != 0 || member.zero != 0;
    member.scale = RootScale(resolved, finite && member.zero == 0 ? largest : 1);
    if (member.zero != 0) member.scale = 0;
    const bool has_shift = resolved.method != RootMethod::kEigen;
    if (has_shift) member.shift = NewtonShift(resolved, member.scale);
    if (has_shift || is_relative) member.factor = RootFactor(member.scale, spec.exponent);
    return member;
  }
};

template <typename Root>
struct SignsBody {
  RootChunk chunk;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    Root* const signs = static_cast<Root*>(chunk.signs);
    cta.ForEach(chunk.n, [&](int64_t i) { signs[i] = static_cast<Root>(ProbeSigns::At(i)); });
  }
};

template <typename Real, typename Root>
struct LoadBody {
  RootChunk chunk;
  void* to;
  bool with_shift;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootPiece piece = PieceAt(chunk, cta.index());
    const RootMember& member = chunk.members[piece.member];
    const int64_t n = chunk.n;
    const Real* const from = static_cast<const Real*>(chunk.matrices) + piece.member * chunk.stride + piece.first * n;
    Root* const target = MatrixOf<Root>(chunk, to, piece.member) + piece.first * n;
    const Root shift = with_shift ? static_cast<Root>(member.shift) : Root{0};
    const ElementScaling<Root> scaled(member.scale, member.divisor);
    cta.ForEach(piece.rows * n, [&](int64_t i) {
      const bool on_diagonal = PlaceAt(piece, n, i).on_diagonal();
      Root value = on_diagonal ? Root{1} : Root{0};
      if (member.replaced == 0) value = scaled(from[i]);
      target[i] = on_diagonal ? value + shift : value;
    });
  }
};

template <typename Real>
cudaError_t LoadFrom(cudaStream_t stream, const RootChunk& chunk, void* to, bool with_shift) {
  const int64_t ctas = chunk.count * chunk.pieces;
  if (chunk.root_dtype == Dtype::kF64) return Launch(stream, ctas, LoadBody<Real, double>{chunk, to, with_shift});
  return Launch(stream, ctas, LoadBody<Real, float>{chunk, to, with_shift});
}

}  // namespace

cudaError_t InspectRoots(cudaStream_t stream, const RootChunk& chunk) {
  const int64_t ctas = chunk.count * chunk.pieces;
  const cudaError_t errors[] = {chunk.computation == Dtype::kF64 ? Launch(stream, ctas, InspectPieceBody<double>{chunk})
                                                                 : Launch(stream, ctas, InspectPieceBody<float>{chunk}),
                                Launch(stream, chunk.count, BeginMemberBody{chunk}),
                                LaunchRoots<SignsBody>(stream, 1, chunk)};
  for (const cudaError_t error : errors) {
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t LoadScaled(cudaStream_t stream, const RootChunk& chunk, void* to, bool with_shift) {
  return chunk.computation == Dtype::kF64 ? LoadFrom<double>(stream, chunk, to, with_shift)
                                          : LoadFrom<float>(stream, chunk, to, with_shift);
}

}  // namespace shampoo::cuda
