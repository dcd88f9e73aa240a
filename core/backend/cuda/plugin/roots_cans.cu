// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/roots_rules.h"

// Kernels of method `cans` (core/rules/cans_scalars.h defines Y, Z, P and B), for many matrices at once. Between these
// kernels, matrix products compute both triangles of their results. If only one triangle of a product such as Z Y were
// computed and then mirrored, the other triangle would be that of Y Z. Only the order of the factors in
// cans_scalars.h keeps rounding errors small.
namespace shampoo::cuda {
namespace {

// Records the norm of Y, which is the largest row sum of magnitudes, in RootMember::z. A pass applies all steps of
// kCansSteps. There are two passes for the power -1/4, otherwise one. The last pass also records, in RootMember::start,
// the factor by which Z must be multiplied to obtain the inverse root X. If there are two passes, the first pass
// records the square root of its norm in `start`, and the last pass computes the factor from this square root and the
// new norm.
struct RecordNormBody {
  RootChunk chunk;
  int64_t strips;
  bool is_last_pass;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const double norm = LargestOfPieces(cta, chunk, strips);
    cta.Once([&] {
      RootMember& member = chunk.members[cta.index()];
      member.z = norm;
      const double before = member.start > 0 ? member.start : 1;
      member.start = is_last_pass ? 1 / sqrt(before * norm) : sqrt(norm);
    });
  }
};

// Computes y <- y / norm and p <- y.
template <typename Root>
struct DivideByNormBody {
  RootChunk chunk;
  void* y;
  void* p;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootPiece piece = PieceAt(chunk, cta.index());
    const auto norm = static_cast<Root>(chunk.members[piece.member].z);
    Root* const from = MatrixOf<Root>(chunk, y, piece.member) + piece.first * chunk.n;
    Root* const to = MatrixOf<Root>(chunk, p, piece.member) + piece.first * chunk.n;
    cta.ForEach(piece.rows * chunk.n, [&](int64_t i) {
      from[i] /= norm;
      to[i] = from[i];
    });
  }
};

// Computes p <- a p + b I and, if z is not nullptr, z <- p.
template <typename Root>
struct CansFactorBody {
  RootChunk chunk;
  void* p;
  void* z;
  double a;
  double b;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootPiece piece = PieceAt(chunk, cta.index());
    const int64_t n = chunk.n;
    Root* const rows = MatrixOf<Root>(chunk, p, piece.member) + piece.first * n;
    Root* const copy = z != nullptr ? MatrixOf<Root>(chunk, z, piece.member) + piece.first * n : nullptr;
    const auto times = static_cast<Root>(a);
    const auto plus = static_cast<Root>(b);
    cta.ForEach(piece.rows * n, [&](int64_t i) {
      const Root value = times * rows[i];
      rows[i] = PlaceAt(piece, n, i).on_diagonal() ? value + plus : value;
      if (copy != nullptr) copy[i] = rows[i];
    });
  }
};

// Computes x <- factor (z + z^T) / 2. The factor is RootMember::start if with_factor is true, otherwise 1.
template <typename Root>
struct SymmetrizeBody {
  RootChunk chunk;
  const void* z;
  void* x;
  bool with_factor;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootPiece piece = PieceAt(chunk, cta.index());
    const int64_t n = chunk.n;
    const Root* const from = MatrixOf<Root>(chunk, z, piece.member);
    Root* const to = MatrixOf<Root>(chunk, x, piece.member) + piece.first * n;
    const double factor = with_factor ? chunk.members[piece.member].start / 2 : 0.5;
    const auto half = static_cast<Root>(factor);
    cta.ForEach(piece.rows * n, [&](int64_t i) {
      const RootPlace place = PlaceAt(piece, n, i);
      to[i] = half * (from[place.row * n + place.column] + from[place.column * n + place.row]);
    });
  }
};

// Computes r <- v - w, where w is X^(power/2) B X^(power/2) v and power is -1 / exponent. v is the old r or, if
// is_first is true, the vector of signs. If is_last is true, a member fails if |r| / |v| is above the chunk's
// largest_residual.
template <typename Root>
struct SubtractProductBody {
  RootChunk chunk;
  void* r;
  const void* w;
  bool is_first;
  bool is_last;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int64_t n = chunk.n;
    const Root* const signs = static_cast<const Root*>(chunk.signs);
    const Root* const product = VectorOf<Root>(chunk, w, cta.index());
    Root* const to = static_cast<Root*>(r) + cta.index() * n;
    cta.ForEach(n, [&](int64_t i) { to[i] = (is_first ? signs[i] : to[i]) - product[i]; });
    const double sum = cta.Sum(n, [&](int64_t i) { return static_cast<double>(to[i]) * static_cast<double>(to[i]); });
    cta.Once([&] {
      RootMember& member = chunk.members[cta.index()];
      const double before = is_first ? sqrt(static_cast<double>(n)) : member.error;
      member.error = sqrt(sum);
      // If r is 0, the check has found no error in X. v may be 0, too, so do not divide.
      const double ratio = member.error == 0 ? 0 : member.error / before;
      if (!is_last || member.failure != RootFailure::kNone) return;
      if (!(ratio <= chunk.largest_residual)) member.failure = RootFailure::kNotConverged;
    });
  }
};

}  // namespace

cudaError_t RecordNorm(cudaStream_t stream, const RootChunk& chunk, const void* y, bool is_last_pass) {
  const cudaError_t error = SumRows(stream, chunk, y, false);
  if (error != cudaSuccess) return error;
  return Launch(stream, chunk.count, RecordNormBody{chunk, RootStrips(chunk.n), is_last_pass});
}

cudaError_t DivideByNorm(cudaStream_t stream, const RootChunk& chunk, void* y, void* p) {
  return LaunchRoots<DivideByNormBody>(stream, chunk.count * chunk.pieces, chunk, y, p);
}

cudaError_t CansFactor(cudaStream_t stream, const RootChunk& chunk, void* p, void* z, double a, double b) {
  return LaunchRoots<CansFactorBody>(stream, chunk.count * chunk.pieces, chunk, p, z, a, b);
}

cudaError_t Symmetrize(cudaStream_t stream, const RootChunk& chunk, const void* z, void* x, bool with_factor) {
  return LaunchRoots<SymmetrizeBody>(stream, chunk.count * chunk.pieces, chunk, z, x, with_factor);
}

cudaError_t SubtractProduct(cudaStream_t stream, const RootChunk& chunk, void* r, const void* w, bool is_first,
                            bool is_last) {
  return LaunchRoots<SubtractProductBody>(stream, chunk.count, chunk, r, w, is_first, is_last);
}

}  // namespace shampoo::cuda
