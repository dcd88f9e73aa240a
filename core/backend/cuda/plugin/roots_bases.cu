// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/roots_rules.h"

namespace shampoo::cuda {
namespace {

template <typename Root>
struct CheckVectorsBody {
  RootChunk chunk;
  const void* eigenvalues;
  const void* product;
  const void* returned;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const bool fits = DecompositionFits<Root>(cta, chunk, eigenvalues, product, returned);
    const bool is_solved = chunk.info[cta.index()] == 0;
    cta.Once([&] {
      RootMember& member = chunk.members[cta.index()];
      if (member.failure != RootFailure::kNone) return;
      member.failure = !is_solved ? RootFailure::kSolver : !fits ? RootFailure::kWrongResult : RootFailure::kNone;
    });
  }
};

template <typename Root>
struct DeliverVectorsBody {
  RootChunk chunk;
  const void* vectors;
  bool ascending;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootPiece piece = PieceAt(chunk, cta.index());
    if (*chunk.active == 0 || chunk.members[piece.member].failure != RootFailure::kNone) return;
    const int64_t n = chunk.n;
    const Root* const from = MatrixOf<Root>(chunk, vectors, piece.member);
    // The elements of chunk.matrices have the type Root, because RootSolver::ComputeBases() requires that the root
    // dtype is the computation dtype.
    Root* const to = static_cast<Root*>(chunk.matrices) + piece.member * chunk.stride + piece.first * n;
    cta.ForEach(piece.rows * n, [&](int64_t i) {
      const RootPlace place = PlaceAt(piece, n, i);
      // The eigenvectors are the rows of `vectors`, ordered by increasing eigenvalue.
      const int64_t vector = ascending ? place.column : n - 1 - place.column;
      to[i] = from[vector * n + place.row];
    });
  }
};

}  // namespace

cudaError_t CheckVectors(cudaStream_t stream, const RootChunk& chunk, const std::array<void*, kRootVectors>& vectors) {
  const auto& [l, roots, av, qv, pair, second_of_pair, back, second_of_back] = vectors;
  return LaunchRoots<CheckVectorsBody>(stream, chunk.count, chunk, static_cast<const void*>(l),
                                       static_cast<const void*>(av), static_cast<const void*>(back));
}

cudaError_t DeliverVectors(cudaStream_t stream, const RootChunk& chunk, const void* vectors, bool ascending) {
  if (const cudaError_t error = WriteStatuses(stream, chunk); error != cudaSuccess) return error;
  return LaunchRoots<DeliverVectorsBody>(stream, chunk.count * chunk.pieces, chunk, vectors, ascending);
}

}  // namespace shampoo::cuda
