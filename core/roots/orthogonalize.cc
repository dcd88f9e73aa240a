// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/roots/orthogonalize.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/base/convert.h"
#include "core/base/kernels/kernels.h"
#include "core/base/largest_magnitude.h"
#include "core/blas/blas.h"
#include "core/blas/mirror.h"
#include "core/blas/rank_update.h"
#include "core/blas/scratch.h"
#include "core/rules/muon.h"

namespace shampoo {
namespace {

// Elementwise loops are divided into pieces of this many elements.
constexpr int64_t kPiece = int64_t{1} << 16;

template <typename Work>
void ForEachPiece(int64_t n, Tiles* tiles, const Work& work) {
  ForEachTile(tiles, (n + kPiece - 1) / kPiece,
              [&](int64_t i) { work(i, i * kPiece, std::min(kPiece, n - i * kPiece)); });
}

// Returns the Frobenius norm. Adds the sums of squares of the pieces in the order of the pieces.
template <typename Real>
double NormOf(int64_t n, const Real* x) {
  double square = 0;
  for (int64_t at = 0; at < n; at += kPiece) {
    square += BestKernels().Of<Real>().sum_of_squares(x + at, std::min(kPiece, n - at));
  }
  return std::sqrt(square);
}

template <typename Real>
void Scale(int64_t n, Real factor, Real* x, Tiles* tiles) {
  ForEachPiece(n, tiles, [&](int64_t, int64_t at, int64_t count) {
    for (int64_t i = at; i < at + count; ++i) x[i] *= factor;
  });
}

// Multiplies x by a power of two so that the largest magnitude of x is in [1, 2). The products are exact unless they
// are subnormal. Returns false if all elements are 0.
template <typename Real>
bool ScaleToOne(int64_t n, Real* x, Tiles* tiles) {
  double largest = 0;
  for (int64_t at = 0; at < n; at += kPiece) {
    largest = std::max(largest, LargestMagnitude(x + at, DtypeOf<Real>(), std::min(kPiece, n - at)));
  }
  if (largest == 0) return false;
  const int exponent = ScaleExponent(largest);
  // Scale by two factors, because a single factor might overflow.
  const int half = exponent / 2;
  Scale(n, std::ldexp(Real{1}, -half), x, tiles);
  Scale(n, std::ldexp(Real{1}, half - exponent), x, tiles);
  return true;
}

// A Newton-Schulz iteration on a rows x columns matrix X. The matrix is called tall if it has more rows than columns.
template <typename Real>
class NewtonSchulz {
 public:
  NewtonSchulz(int64_t rows, int64_t columns, Real* x, Real* memory, Tiles* tiles)
      : rows_(rows),
        columns_(columns),
        m_(std::min(rows, columns)),
        is_wide_(rows <= columns),
        x_(x),
        gram_(memory),
        polynomial_(memory + m_ * m_),
        next_(memory + 2 * m_ * m_),
        tiles_(tiles) {}

  static int64_t Elements(int64_t rows, int64_t columns) {
    const int64_t m = std::min(rows, columns);
    return 2 * m * m + rows * columns;
  }

  // A <- X X^T or, if X is tall, X^T X. Both triangles of A are written.
  void ComputeGram() {
    blas::Update(
        blas::RankUpdate<Real>{!is_wide_, m_, std::max(rows_, columns_), Real{1}, x_, columns_, Real{0}, gram_, m_},
        tiles_);
    Mirror(m_, gram_);
  }

  double GramNorm() const { return NormOf(m_ * m_, gram_); }

  // X <- (a I + b A + c A A) X, or X (a I + b A + c A A) if X is tall.
  void Step(const NsCoefficients::Entry& entry) {
    const auto b = static_cast<Real>(entry.b);
    if (entry.c != 0) {
      std::copy_n(gram_, m_ * m_, polynomial_);
      blas::Update(blas::RankUpdate<Real>{false, m_, m_, static_cast<Real>(entry.c), gram_, m_, b, polynomial_, m_},
                   tiles_);
      Mirror(m_, polynomial_);
    } else {
      std::transform(gram_, gram_ + m_ * m_, polynomial_, [b](Real value) { return b * value; });
    }
    for (int64_t i = 0; i < m_; ++i) polynomial_[i * m_ + i] += static_cast<Real>(entry.a);
    Multiply();
    std::swap(x_, next_);
  }

  const Real* result() const { return x_; }

 private:
  // next <- polynomial * X or, if X is tall, X * polynomial. The product is divided into tiles along the larger dim of
  // X.
  void Multiply() const {
    const int64_t length = std::max(rows_, columns_);
    const int64_t each = std::max(kMinParallelProducts / (m_ * m_) / 16 * 16, int64_t{256});
    ForEachTile(tiles_, (length + each - 1) / each, [&](int64_t i) {
      const int64_t first = i * each;
      const int64_t count = std::min(each, length - first);
      if (is_wide_) {
        blas::Gemm(m_, count, m_, polynomial_, m_, x_ + first, columns_, next_ + first, columns_);
      } else {
        blas::Gemm(count, m_, m_, x_ + first * m_, m_, polynomial_, m_, next_ + first * m_, m_);
      }
    });
  }

  int64_t rows_, columns_, m_;
  bool is_wide_;
  Real* x_;
  Real* gram_;
  Real* polynomial_;
  Real* next_;
  Tiles* tiles_;
};

template <typename Real>
void ByNewtonSchulz(const Settings& settings, int64_t rows, int64_t columns, Real* x,
                    const OrthogonalizeMemory<Real>& memory) {
  const int64_t n = rows * columns;
  const NsCoefficients& coefficients = settings.ns_coefficients;
  NewtonSchulz<Real> iteration(rows, columns, x, memory.memory, memory.tiles);
  double norm = NormOf(n, x);
  if (settings.ns_norm == NsNorm::kSchatten4) {
    Scale(n, static_cast<Real>(1 / norm), x, memory.tiles);
    iteration.ComputeGram();
    norm = std::sqrt(iteration.GramNorm());
  }
  Scale(n, static_cast<Real>(1 / (coefficients.divisor * norm)), x, memory.tiles);
  for (int64_t step = 0; step < settings.ns_steps; ++step) {
    iteration.ComputeGram();
    iteration.Step(EntryOf(coefficients, step));
  }
  if (iteration.result() != x) std::copy_n(iteration.result(), n, x);
}

int64_t ExactElements(int64_t rows, int64_t columns) {
  const int64_t k = std::min(rows, columns);
  return 2 * rows * columns + k * (rows + columns) + k + blas::SvdWork(rows, columns);
}

template <typename Real>
bool Exactly(int64_t rows, int64_t columns, Real* x, double* memory) {
  const int64_t n = rows * columns;
  const int64_t k = std::min(rows, columns);
  double* const a = memory;
  double* const product = a + n;
  double* const u = product + n;
  double* const vt = u + rows * k;
  double* const s = vt + k * columns;
  std::copy_n(x, n, a);
  if (blas::Gesvd(rows, columns, a, u, s, vt, s + k) != 0) return false;
  // Singular values are in descending order. If a singular value is NaN, `least` is NaN, and the loop below keeps
  // all of them. The result is then not finite.
  const double least = kLeastSingularValue * NormOf(k, s);
  int64_t rank = k;
  while (rank > 0 && s[rank - 1] < least) --rank;
  blas::Gemm(rows, columns, rank, u, k, vt, columns, product, columns);
  std::transform(product, product + n, x, [](double value) { return static_cast<Real>(value); });
  return true;
}

}  // namespace

template <typename Real>
int64_t OrthogonalizeMemory<Real>::Elements(Orthogonalization how, int64_t rows, int64_t columns) {
  if (how == Orthogonalization::kNewtonSchulz) return NewtonSchulz<Real>::Elements(rows, columns);
  return ExactElements(rows, columns) * static_cast<int64_t>(sizeof(double) / sizeof(Real));
}

template <typename Real>
bool Orthogonalize(const Settings& settings, int64_t rows, int64_t columns, Real* x,
                   const OrthogonalizeMemory<Real>& memory) {
  if (!ScaleToOne(rows * columns, x, memory.tiles)) return true;
  if (settings.orthogonalization == Orthogonalization::kExact) {
    return Exactly(rows, columns, x, reinterpret_cast<double*>(memory.memory));
  }
  ByNewtonSchulz(settings, rows, columns, x, memory);
  return true;
}

template <typename Real>
Status OrthogonalizeMatrix(const Settings& settings, int64_t rows, int64_t columns, const Real* a, Real* x) {
  if (settings.muon_math != MuonMath::kF32) {
    return Unsupported("key muon_math: the value bf16 is not supported on the CPU: expected f32");
  }
  SHAMPOO_RETURN_IF_ERROR(blas::CheckThreads());
  const int64_t n = rows * columns;
  if (!std::isfinite(LargestMagnitude(a, DtypeOf<Real>(), n))) {
    return Numeric("the matrix a (", rows, " x ", columns, ") has a NaN or an infinity: expected finite elements");
  }
  blas::Scratch scratch;
  SHAMPOO_RETURN_IF_ERROR(blas::Scratch::Create({}, &scratch));
  const blas::ScratchUse use(&scratch);
  std::vector<Real> memory(
      static_cast<size_t>(OrthogonalizeMemory<Real>::Elements(settings.orthogonalization, rows, columns)));
  std::vector<Real> result(a, a + n);
  if (!Orthogonalize<Real>(settings, rows, columns, result.data(), {memory.data()})) {
    return Numeric("LAPACK could not compute the singular value decomposition of the matrix a (", rows, " x ", columns,
                   "): set orthogonalization=newton_schulz");
  }
  if (!std::isfinite(LargestMagnitude(result.data(), DtypeOf<Real>(), n))) {
    return Numeric("the iteration for the matrix a (", rows, " x ", columns,
                   ") diverged: expected ns_coefficients that keep singular values bounded, such as polar_express");
  }
  std::copy(result.begin(), result.end(), x);
  return {};
}

template Status OrthogonalizeMatrix(const Settings&, int64_t, int64_t, const float*, float*);
template Status OrthogonalizeMatrix(const Settings&, int64_t, int64_t, const double*, double*);
template struct OrthogonalizeMemory<float>;
template struct OrthogonalizeMemory<double>;
template bool Orthogonalize(const Settings&, int64_t, int64_t, float*, const OrthogonalizeMemory<float>&);
template bool Orthogonalize(const Settings&, int64_t, int64_t, double*, const OrthogonalizeMemory<double>&);

}  // namespace shampoo
