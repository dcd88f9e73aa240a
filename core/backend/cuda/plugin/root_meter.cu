// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/root_meter_kernels.h"
#include "core/backend/cuda/plugin/roots_rules.h"

namespace shampoo::cuda {
namespace {

// Returns the rows of a piece in `matrices`, which is one of the arrays of MeasuredChunk.
SHAMPOO_DEVICE inline double* RowsOf(const RootChunk& chunk, const RootPiece& piece, double* matrices) {
  return MatrixOf<double>(chunk, matrices, piece.member) + piece.first * chunk.n;
}

// Returns the rows of a piece in RootChunk::matrices.
template <typename Real>
SHAMPOO_DEVICE inline const Real* RowsOfChunk(const RootChunk& chunk, const RootPiece& piece) {
  return static_cast<const Real*>(chunk.matrices) + piece.member * chunk.stride + piece.first * chunk.n;
}

template <typename Real>
struct CopyMatrixBody {
  MeasuredChunk measured;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootChunk& chunk = measured.chunk;
    const RootPiece piece = PieceAt(chunk, cta.index());
    const Real* const from = RowsOfChunk<Real>(chunk, piece);
    double* const original = RowsOf(chunk, piece, measured.originals);
    double* const root = RowsOf(chunk, piece, measured.roots);
    cta.ForEach(piece.rows * chunk.n, [&](int64_t i) {
      original[i] = static_cast<double>(from[i]);
      root[i] = original[i];
    });
    if (cta.index() == 0) cta.Once([&] { *measured.one = 1; });
  }
};

// Returns whether the root of a member was computed and can therefore be measured.
SHAMPOO_DEVICE inline bool IsMeasured(const RootChunk& chunk, int64_t member) {
  return *chunk.active != 0 && chunk.status[member].failure == RootFailure::kNone;
}

template <typename Real>
struct CompareRootBody {
  MeasuredChunk measured;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootChunk& chunk = measured.chunk;
    const RootPiece piece = PieceAt(chunk, cta.index());
    const int64_t elements = piece.rows * chunk.n;
    const Real* const x = RowsOfChunk<Real>(chunk, piece);
    double* const exact = RowsOf(chunk, piece, measured.roots);
    const uint64_t difference =
        cta.Largest(elements, [&](int64_t i) { return MagnitudeBits(static_cast<double>(x[i]) - exact[i]); });
    const uint64_t largest = cta.Largest(elements, [&](int64_t i) { return MagnitudeBits(exact[i]); });
    cta.ForEach(elements, [&](int64_t i) { exact[i] = static_cast<double>(x[i]); });
    cta.Once([&] {
      chunk.partials[cta.index()].first_magnitude = difference;
      chunk.partials[cta.index()].second_magnitude = largest;
    });
  }
};

SHAMPOO_DEVICE inline double Relative(double difference, double largest) {
  return largest > 0 ? difference / largest : difference;
}

struct RecordErrorBody {
  MeasuredChunk measured;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootChunk& chunk = measured.chunk;
    const RootPartial* const partials = chunk.partials + cta.index() * chunk.pieces;
    const double difference = LargestOfPieces(cta, chunk, chunk.pieces);
    const double largest =
        BitsAs<double>(cta.Largest(chunk.pieces, [&](int64_t i) { return partials[i].second_magnitude; }));
    cta.Once([&] {
      if (!IsMeasured(chunk, cta.index())) return;
      const bool is_known = measured.statuses[cta.index()].failure == RootFailure::kNone;
      chunk.status[cta.index()].error = is_known ? Relative(difference, largest) : INFINITY;
    });
  }
};

struct CompareMatrixBody {
  MeasuredChunk measured;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootChunk& chunk = measured.chunk;
    const RootPiece piece = PieceAt(chunk, cta.index());
    const int64_t elements = piece.rows * chunk.n;
    const double* const original = RowsOf(chunk, piece, measured.originals);
    const double* const power = RowsOf(chunk, piece, measured.roots);
    const double divisor = chunk.members[piece.member].divisor;
    const double shift = chunk.status[piece.member].shift;
    const auto element = [&](int64_t i) {
      return original[i] / divisor + (PlaceAt(piece, chunk.n, i).on_diagonal() ? shift : 0);
    };
    const uint64_t difference = cta.Largest(elements, [&](int64_t i) { return MagnitudeBits(power[i] - element(i)); });
    const uint64_t largest = cta.Largest(elements, [&](int64_t i) { return MagnitudeBits(element(i)); });
    const uint64_t magnitude = cta.Largest(elements, [&](int64_t i) { return MagnitudeBits(original[i]); });
    cta.Once([&] {
      RootPartial& partial = chunk.partials[cta.index()];
      partial.first_magnitude = difference;
      partial.second_magnitude = largest;
      partial.trace = BitsAs<double>(magnitude);
    });
  }
};

struct RecordResidualBody {
  MeasuredChunk measured;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootChunk& chunk = measured.chunk;
    const RootPartial* const partials = chunk.partials + cta.index() * chunk.pieces;
    const double difference = LargestOfPieces(cta, chunk, chunk.pieces);
    const double largest =
        BitsAs<double>(cta.Largest(chunk.pieces, [&](int64_t i) { return partials[i].second_magnitude; }));
    const double magnitude =
        BitsAs<double>(cta.Largest(chunk.pieces, [&](int64_t i) { return MagnitudeBits(partials[i].trace); }));
    cta.Once([&] {
      if (!IsMeasured(chunk, cta.index())) return;
      RootStatus& status = chunk.status[cta.index()];
      const bool exists = measured.statuses[cta.index()].failure == RootFailure::kNone;
      status.residual = exists ? Relative(difference, largest) : INFINITY;
      // With a relative epsilon, the root of a negligible matrix is defined as the identity, so this root is exact.
      if (chunk.spec.relative_epsilon == 0 || !IsNegligible(magnitude, chunk.computation)) return;
      status.error = 0;
      status.residual = 0;
    });
  }
};

template <template <typename> typename Body>
cudaError_t LaunchOverPieces(cudaStream_t stream, const MeasuredChunk& measured) {
  const int64_t ctas = measured.chunk.count * measured.chunk.pieces;
  return measured.chunk.computation == Dtype::kF64 ? Launch(stream, ctas, Body<double>{measured})
                                                   : Launch(stream, ctas, Body<float>{measured});
}

}  // namespace

cudaError_t CopyMatrices(cudaStream_t stream, const MeasuredChunk& measured) {
  return LaunchOverPieces<CopyMatrixBody>(stream, measured);
}

cudaError_t RecordErrors(cudaStream_t stream, const MeasuredChunk& measured) {
  const cudaError_t error = LaunchOverPieces<CompareRootBody>(stream, measured);
  return error != cudaSuccess ? error : Launch(stream, measured.chunk.count, RecordErrorBody{measured});
}

cudaError_t RecordResiduals(cudaStream_t stream, const MeasuredChunk& measured) {
  const cudaError_t error = Launch(stream, measured.chunk.count * measured.chunk.pieces, CompareMatrixBody{measured});
  return error != cudaSuccess ? error : Launch(stream, measured.chunk.count, RecordResidualBody{measured});
}

}  // namespace shampoo::cuda
