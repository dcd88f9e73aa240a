// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/roots_rules.h"

namespace shampoo::cuda {
namespace {

template <typename Root>
struct FinishRootBody {
  RootChunk chunk;
  void* x;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootPiece piece = PieceAt(chunk, cta.index());
    const double factor = chunk.members[piece.member].factor;
    MirrorPiece(cta, chunk, piece, MatrixOf<Root>(chunk, x, piece.member));
    const Root* const rows = MatrixOf<Root>(chunk, x, piece.member) + piece.first * chunk.n;
    const uint64_t largest = cta.Largest(piece.rows * chunk.n, [&](int64_t i) {
      const RootPlace place = PlaceAt(piece, chunk.n, i);
      return place.column > place.row ? 0 : MagnitudeBits(static_cast<double>(rows[i]) * factor);
    });
    cta.Once([&] { chunk.partials[cta.index()].first_magnitude = largest; });
  }
};

template <typename Root>
struct RecordLargestBody {
  RootChunk chunk;
  const void* roots;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    double largest = 0;
    if (chunk.members[cta.index()].shortcut != 0) {
      const Root* const diagonal = VectorOf<Root>(chunk, roots, cta.index());
      const double factor = chunk.members[cta.index()].factor;
      largest = BitsAs<double>(
          cta.Largest(chunk.n, [&](int64_t i) { return MagnitudeBits(static_cast<double>(diagonal[i]) * factor); }));
    } else if (chunk.n > 1 || chunk.spec.method != RootMethod::kEigen) {
      largest = LargestOfPieces(cta, chunk, chunk.pieces);
    }
    cta.Once([&] { chunk.members[cta.index()].largest = largest; });
  }
};

SHAMPOO_DEVICE inline void CheckResidual(const RootChunk& chunk, double residual, RootMember* member) {
  // A member that is still running has reached the maximum number of iterations.
  if (member->running != 0) {
    member->running = 0;
    member->converged = 0;
  }
  if (residual <= chunk.largest_residual || member->failure != RootFailure::kNone) return;
  member->failure = member->converged == 1 ? RootFailure::kWrongResult : RootFailure::kNotConverged;
}

template <typename Root>
struct CheckByVectorBody {
  RootChunk chunk;
  const void* vector;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const Root* const of_signs = VectorOf<Root>(chunk, vector, cta.index());
    const Root* const signs = static_cast<const Root*>(chunk.signs);
    const double sum = cta.Sum(chunk.n, [&](int64_t i) {
      const double difference = static_cast<double>(of_signs[i]) - static_cast<double>(signs[i]);
      return difference * difference;
    });
    cta.Once([&] { CheckResidual(chunk, sqrt(sum / static_cast<double>(chunk.n)), chunk.members + cta.index()); });
  }
};

template <typename Root>
struct DistanceBody {
  RootChunk chunk;
  const void* matrix;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootPiece piece = PieceAt(chunk, cta.index());
    const Root* const rows = MatrixOf<Root>(chunk, matrix, piece.member) + piece.first * chunk.n;
    const uint64_t largest = cta.Largest(piece.rows * chunk.n, [&](int64_t i) {
      const Root identity = PlaceAt(piece, chunk.n, i).on_diagonal() ? Root{1} : Root{0};
      return MagnitudeBits(static_cast<double>(rows[i] - identity));
    });
    cta.Once([&] { chunk.partials[cta.index()].first_magnitude = largest; });
  }
};

struct CheckByMatrixBody {
  RootChunk chunk;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const double distance = LargestOfPieces(cta, chunk, chunk.pieces);
    cta.Once([&] { CheckResidual(chunk, distance, chunk.members + cta.index()); });
  }
};

struct StatusBody {
  RootChunk chunk;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    cta.ForEach(chunk.count, [&](int64_t i) { WriteStatus(i); });
  }

  SHAMPOO_DEVICE void WriteStatus(int64_t i) const {
    RootMember& member = chunk.members[i];
    // The root of a negligible matrix (RootMember::zero) is the identity by definition. The solver got the identity
    // instead of the matrix.
    if (member.zero != 0) {
      member.failure = RootFailure::kNone;
      member.largest = 1;
      member.iterations = 0;
      member.converged = 1;
    }
    const bool is_unusable = member.failure == RootFailure::kNanInput || member.failure == RootFailure::kInfInput;
    if (member.failure == RootFailure::kNone && !(member.largest <= chunk.limit)) {
      member.failure = RootFailure::kOutOfRange;
    }
    if (*chunk.active == 0) return;
    RootStatus& status = chunk.status[i];
    status.kind = is_unusable ? RootKind::kEigen : member.kind;
    status.failure = member.failure;
    status.iterations = is_unusable ? 0 : member.iterations;
    status.converged = is_unusable ? 1 : member.converged;
    const bool solved = chunk.spec.method == RootMethod::kEigen && chunk.n > 1 && member.replaced == 0;
    status.solver_info = solved ? chunk.info[i] : 0;
    status.diagonal_input = member.diagonal;
    const bool iterated =
        member.kind == RootKind::kNewton || member.kind == RootKind::kHigherOrder || member.kind == RootKind::kCans;
    status.shift = iterated ? ldexp(member.shift, member.scale) : member.shift;
    status.epsilon = iterated ? status.shift : chunk.spec.pseudo_inverse ? 0 : member.epsilon;
    status.error = 0;
    status.residual = 0;
  }
};

template <typename Real, typename Root>
struct DeliverBody {
  RootChunk chunk;
  const void* roots;
  const void* x;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootPiece piece = PieceAt(chunk, cta.index());
    const RootMember& member = chunk.members[piece.member];
    if (*chunk.active == 0 || member.failure != RootFailure::kNone) return;
    const int64_t n = chunk.n;
    Real* const to = static_cast<Real*>(chunk.matrices) + piece.member * chunk.stride + piece.first * n;
    if (member.zero != 0) {
      cta.ForEach(piece.rows * n, [&](int64_t i) { to[i] = PlaceAt(piece, n, i).on_diagonal() ? Real{1} : Real{0}; });
      return;
    }
    if (member.shortcut != 0) {
      const Root* const diagonal = VectorOf<Root>(chunk, roots, piece.member);
      cta.ForEach(piece.rows * n, [&](int64_t i) {
        const RootPlace place = PlaceAt(piece, n, i);
        const double value = static_cast<double>(diagonal[place.row]) * member.factor;
        to[i] = place.on_diagonal() ? static_cast<Real>(value) : Real{0};
      });
      return;
    }
    const Root* const from = MatrixOf<Root>(chunk, x, piece.member) + piece.first * n;
    cta.ForEach(piece.rows * n,
                [&](int64_t i) { to[i] = static_cast<Real>(static_cast<double>(from[i]) * member.factor); });
  }
};

template <typename Real>
cudaError_t DeliverAs(cudaStream_t stream, const RootChunk& chunk, const void* roots, const void* x) {
  const int64_t ctas = chunk.count * chunk.pieces;
  if (chunk.root_dtype == Dtype::kF64) return Launch(stream, ctas, DeliverBody<Real, double>{chunk, roots, x});
  return Launch(stream, ctas, DeliverBody<Real, float>{chunk, roots, x});
}

}  // namespace

cudaError_t FinishRoot(cudaStream_t stream, const RootChunk& chunk, const void* roots, void* x) {
  if (x != nullptr) {
    const cudaError_t error = LaunchRoots<FinishRootBody>(stream, chunk.count * chunk.pieces, chunk, x);
    if (error != cudaSuccess) return error;
  }
  return LaunchRoots<RecordLargestBody>(stream, chunk.count, chunk, roots);
}

cudaError_t CheckByVector(cudaStream_t stream, const RootChunk& chunk, const void* vector) {
  return LaunchRoots<CheckByVectorBody>(stream, chunk.count, chunk, vector);
}

cudaError_t CheckByMatrix(cudaStream_t stream, const RootChunk& chunk, const void* matrix) {
  const cudaError_t error = LaunchRoots<DistanceBody>(stream, chunk.count * chunk.pieces, chunk, matrix);
  return error != cudaSuccess ? error : Launch(stream, chunk.count, CheckByMatrixBody{chunk});
}

cudaError_t WriteStatuses(cudaStream_t stream, const RootChunk& chunk) { return Launch(stream, 1, StatusBody{chunk}); }

cudaError_t DeliverRoots(cudaStream_t stream, const RootChunk& chunk, const void* roots, const void* x) {
  if (const cudaError_t error = WriteStatuses(stream, chunk); error != cudaSuccess) return error;
  return chunk.computation == Dtype::kF64 ? DeliverAs<double>(stream, chunk, roots, x)
                                          : DeliverAs<float>(stream, chunk, roots, x);
}

}  // namespace shampoo::cuda
