// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/roots_rules.h"
#include "core/rules/coupled_scalars.h"

// Kernels of root methods newton and higher_order (core/rules/coupled_scalars.h), for many matrices at once.
namespace shampoo::cuda {
namespace {

// Records the largest row sum of the magnitudes in `a`. `a` is symmetric, so a thread sums a column instead of a row:
// neighboring threads then read neighboring elements.
template <typename Root>
struct SumRowsBody {
  RootChunk chunk;
  int64_t strips;
  const void* a;
  bool fourth;  // whether `a` is the fourth power of the scaled matrix

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int64_t index = cta.index() / strips;
    const int64_t strip = cta.index() % strips;
    const int64_t n = chunk.n;
    const int64_t first = strip * kCtaThreads;
    const Root* const columns = MatrixOf<Root>(chunk, a, index) + first;
    const uint64_t largest = cta.Largest(n - first < kCtaThreads ? n - first : kCtaThreads, [&](int64_t j) {
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += fabs(static_cast<double>(columns[i * n + j]));
      return MagnitudeBits(sum);
    });
    cta.Once([&] {
      RootPartial& partial = chunk.partials[index * chunk.pieces + strip];
      (fourth ? partial.second_magnitude : partial.first_magnitude) = largest;
    });
  }
};

template <typename Root>
struct SumSquaresBody {
  RootChunk chunk;
  const void* y;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootPiece piece = PieceAt(chunk, cta.index());
    const int64_t n = chunk.n;
    const Root* const rows = MatrixOf<Root>(chunk, y, piece.member) + piece.first * n;
    const Root shift = static_cast<Root>(chunk.members[piece.member].shift);
    const double sum = cta.Sum(piece.rows * n, [&](int64_t i) {
      const Root value = PlaceAt(piece, n, i).on_diagonal() ? rows[i] + shift : rows[i];
      return static_cast<double>(value) * static_cast<double>(value);
    });
    cta.Once([&] { chunk.partials[cta.index()].sum = sum; });
  }
};

// Computes `z` and `start` of each member and, with root method higher_order, `shift`.
struct StartBody {
  RootChunk chunk;
  int64_t strips;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootPartial* const partials = chunk.partials + cta.index() * chunk.pieces;
    const bool higher = chunk.spec.method == RootMethod::kHigherOrder;
    double sum = 0;
    double bound = 0;
    if (higher) {
      bound = LargestOfPieces(cta, chunk, strips);
      const uint64_t fourth = cta.Largest(strips, [&](int64_t i) { return partials[i].second_magnitude; });
      bound = EigenvalueBound(chunk.spec, bound, BitsAs<double>(fourth));
    } else {
      sum = cta.Sum(chunk.pieces, [&](int64_t i) { return partials[i].sum; });
    }
    cta.Once([&] {
      RootMember& member = chunk.members[cta.index()];
      const int64_t p = chunk.spec.numerator;
      if (higher) {
        RootSpec spec = chunk.spec;
        if (spec.relative_epsilon > 0) spec.epsilon = member.epsilon;
        const CoupledStart start = StartHigherOrder(spec, member.scale, bound);
        member.shift = start.shift;
        member.z = start.z;
      } else {
        member.z = NewtonMultiple(p, sqrt(sum));
      }
      member.start = RootOfMultiple(member.z, p);
      member.running = 1;
    });
  }
};

template <typename Root>
SHAMPOO_DEVICE inline uint64_t DistanceBits(Root value, bool on_diagonal) {
  return MagnitudeBits(static_cast<double>(value - (on_diagonal ? Root{1} : Root{0})));
}

template <typename Root>
struct FirstIterateBody {
  RootChunk chunk;
  void* y;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootPiece piece = PieceAt(chunk, cta.index());
    const int64_t n = chunk.n;
    const RootMember& member = chunk.members[piece.member];
    const Root z = static_cast<Root>(member.z);
    const Root shift = static_cast<Root>(member.shift);
    Root* const rows = MatrixOf<Root>(chunk, y, piece.member) + piece.first * n;
    cta.ForEach(piece.rows * n,
                [&](int64_t i) { rows[i] = (PlaceAt(piece, n, i).on_diagonal() ? rows[i] + shift : rows[i]) * z; });
    const uint64_t largest = cta.Largest(
        piece.rows * n, [&](int64_t i) { return DistanceBits(rows[i], PlaceAt(piece, n, i).on_diagonal()); });
    cta.Once([&] { chunk.partials[cta.index()].first_magnitude = largest; });
  }
};

template <typename Root>
struct FactorBody {
  RootChunk chunk;
  const void* y;
  void* t;
  double multiplier;
  double divisor;
  double diagonal;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootPiece piece = PieceAt(chunk, cta.index());
    const int64_t n = chunk.n;
    const bool running = chunk.members[piece.member].running != 0;
    const Root* const from = MatrixOf<Root>(chunk, y, piece.member) + piece.first * n;
    Root* const to = MatrixOf<Root>(chunk, t, piece.member) + piece.first * n;
    const auto times = static_cast<Root>(-multiplier);
    const auto over = static_cast<Root>(divisor);
    const auto plus = static_cast<Root>(diagonal);
    cta.ForEach(piece.rows * n, [&](int64_t i) {
      const bool on_diagonal = PlaceAt(piece, n, i).on_diagonal();
      const Root value = times * from[i] / over;
      const Root identity = on_diagonal ? Root{1} : Root{0};
      to[i] = !running ? identity : on_diagonal ? value + plus : value;
    });
  }
};

template <typename Root>
struct AddTermBody {
  RootChunk chunk;
  const void* t;
  void* s;
  double diagonal;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootPiece piece = PieceAt(chunk, cta.index());
    const int64_t n = chunk.n;
    const bool running = chunk.members[piece.member].running != 0;
    const Root* const from = MatrixOf<Root>(chunk, t, piece.member) + piece.first * n;
    Root* const to = MatrixOf<Root>(chunk, s, piece.member) + piece.first * n;
    const auto plus = static_cast<Root>(diagonal);
    cta.ForEach(piece.rows * n, [&](int64_t i) {
      const bool on_diagonal = PlaceAt(piece, n, i).on_diagonal();
      const Root value = to[i] + from[i];
      const Root identity = on_diagonal ? Root{1} : Root{0};
      to[i] = !running ? identity : on_diagonal ? value + plus : value;
    });
  }
};

template <typename Root>
struct FirstRootBody {
  RootChunk chunk;
  const void* t;
  void* x;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootPiece piece = PieceAt(chunk, cta.index());
    const auto start = static_cast<Root>(chunk.members[piece.member].start);
    const Root* const from = MatrixOf<Root>(chunk, t, piece.member) + piece.first * chunk.n;
    Root* const to = MatrixOf<Root>(chunk, x, piece.member) + piece.first * chunk.n;
    cta.ForEach(piece.rows * chunk.n, [&](int64_t i) { to[i] = start * from[i]; });
  }
};

template <typename Root>
struct FinishIterateBody {
  RootChunk chunk;
  void* y;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const RootPiece piece = PieceAt(chunk, cta.index());
    MirrorPiece(cta, chunk, piece, MatrixOf<Root>(chunk, y, piece.member));
    const Root* const rows = MatrixOf<Root>(chunk, y, piece.member) + piece.first * chunk.n;
    const uint64_t largest = cta.Largest(piece.rows * chunk.n, [&](int64_t i) {
      const RootPlace place = PlaceAt(piece, chunk.n, i);
      // Skip the elements above the diagonal, because other CTAs may be writing them (MirrorPiece).
      return place.column > place.row ? 0 : DistanceBits(rows[i], place.on_diagonal());
    });
    cta.Once([&] { chunk.partials[cta.index()].first_magnitude = largest; });
  }
};

// Decides which members continue. The decision about a member does not depend on the other members of the chunk.
struct UpdateRunningBody {
  RootChunk chunk;
  int64_t number;  // number of the iteration that has ended; 0: no iteration has begun

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const double error = LargestOfPieces(cta, chunk, chunk.pieces);
    cta.Once([&] {
      RootMember& member = chunk.members[cta.index()];
      if (member.running != 0) Decide(error, &member);
    });
  }

  SHAMPOO_DEVICE void Decide(double error, RootMember* member) const {
    const CoupledState state = StateAfter(chunk.spec, number, member->error, error);
    member->error = error;
    member->iterations = static_cast<int32_t>(number);
    if (state == CoupledState::kRunning) return;
    member->running = 0;
    member->converged = static_cast<int32_t>(state);
  }
};

struct CountRunningBody {
  RootChunk chunk;
  int64_t* count;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const double running = cta.Sum(chunk.count, [&](int64_t i) { return chunk.members[i].running != 0 ? 1.0 : 0.0; });
    cta.Once([&] {
      *count = static_cast<int64_t>(running);
      Cta::FenceHost();
    });
  }
};

}  // namespace

cudaError_t SumRows(cudaStream_t stream, const RootChunk& chunk, const void* a, bool fourth) {
  const int64_t strips = RootStrips(chunk.n);
  return LaunchRoots<SumRowsBody>(stream, chunk.count * strips, chunk, strips, a, fourth);
}

cudaError_t SumSquares(cudaStream_t stream, const RootChunk& chunk, const void* y) {
  return LaunchRoots<SumSquaresBody>(stream, chunk.count * chunk.pieces, chunk, y);
}

cudaError_t StartCoupled(cudaStream_t stream, const RootChunk& chunk, void* y) {
  if (const cudaError_t error = Launch(stream, chunk.count, StartBody{chunk, RootStrips(chunk.n)});
      error != cudaSuccess) {
    return error;
  }
  const cudaError_t error = LaunchRoots<FirstIterateBody>(stream, chunk.count * chunk.pieces, chunk, y);
  if (error != cudaSuccess || chunk.spec.method == RootMethod::kHigherOrder) return error;
  return Launch(stream, chunk.count, UpdateRunningBody{chunk, 0});
}

cudaError_t MakeFactor(cudaStream_t stream, const RootChunk& chunk, const void* y, void* t, double multiplier,
                       double divisor, double diagonal) {
  return LaunchRoots<FactorBody>(stream, chunk.count * chunk.pieces, chunk, y, t, multiplier, divisor, diagonal);
}

cudaError_t AddTerm(cudaStream_t stream, const RootChunk& chunk, const void* t, void* s, double diagonal) {
  return LaunchRoots<AddTermBody>(stream, chunk.count * chunk.pieces, chunk, t, s, diagonal);
}

cudaError_t FirstRoot(cudaStream_t stream, const RootChunk& chunk, const void* t, void* x) {
  return LaunchRoots<FirstRootBody>(stream, chunk.count * chunk.pieces, chunk, t, x);
}

cudaError_t CountRunning(cudaStream_t stream, const RootChunk& chunk, int64_t* count) {
  return Launch(stream, 1, CountRunningBody{chunk, count});
}

cudaError_t EndIteration(cudaStream_t stream, const RootChunk& chunk, void* y, int64_t number) {
  const cudaError_t error = LaunchRoots<FinishIterateBody>(stream, chunk.count * chunk.pieces, chunk, y);
  return error != cudaSuccess ? error : Launch(stream, chunk.count, UpdateRunningBody{chunk, number});
}

}  // namespace shampoo::cuda
