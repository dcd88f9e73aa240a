// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "core/base/kernels/kernels.h"
#include "core/blas/blas.h"
#include "core/roots/ladder.h"
#include "core/roots/matrix.h"
#include "core/roots/resolvent.h"
#include "core/roots/resolvent_root.h"
#include "core/roots/zolotarev.h"
#include "tests/core/symmetric_matrices.h"

namespace shampoo {
namespace {

struct OwnedTridiagonal {
  Doubles d, e;
  Tridiagonal view() const { return {static_cast<int64_t>(d.size()), d.data(), e.data()}; }
  Doubles Dense() const {
    const auto n = static_cast<int64_t>(d.size());
    Doubles dense(At(n * n));
    for (int64_t i = 0; i < n; ++i) dense[At(i * n + i)] = d[At(i)];
    for (int64_t i = 0; i + 1 < n; ++i) dense[At(i * n + i + 1)] = dense[At((i + 1) * n + i)] = e[At(i)];
    return dense;
  }
};

// Returns a random matrix whose eigenvalues are at least `floor` / 2. About one in `gap` of the elements next to the
// diagonal is 0.
OwnedTridiagonal DrawTridiagonal(int64_t n, int gap, double floor) {
  std::mt19937_64 random(At(n));
  std::uniform_real_distribution<double> uniform(-1, 1);
  OwnedTridiagonal t{Doubles(At(n)), Doubles(At(n))};
  for (int64_t i = 0; i < n; ++i) {
    t.e[At(i)] = i + 1 < n && random() % static_cast<uint64_t>(gap) != 0 ? uniform(random) : 0;
  }
  for (int64_t i = 0; i < n; ++i) {
    t.d[At(i)] = std::fabs(t.e[At(i)]) + (i > 0 ? std::fabs(t.e[At(i - 1)]) : 0) + floor * (1.5 + uniform(random));
  }
  return t;
}

struct EigenPairs {
  Doubles q, l;  // row i of q is the eigenvector for the eigenvalue l[i]
};

EigenPairs SolveDense(int64_t n, const Doubles& a) {
  EigenPairs pairs{a, Doubles(At(n))};
  Doubles work(At(blas::EigenWork(n)));
  REQUIRE(blas::Syev(n, pairs.q.data(), pairs.l.data(), work.data()) == 0);
  return pairs;
}

// Returns f(A): the matrix with the eigenvectors of the symmetric matrix A, and f(l) instead of each eigenvalue l of A.
Doubles Apply(int64_t n, const Doubles& a, const std::function<double(double)>& f) {
  const EigenPairs pairs = SolveDense(n, a);
  Doubles result(At(n * n));
  for (int64_t k = 0; k < n; ++k) {
    const double value = f(pairs.l[At(k)]);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) result[At(i * n + j)] += value * pairs.q[At(k * n + i)] * pairs.q[At(k * n + j)];
    }
  }
  return result;
}

// Returns the matrix Y that a ResolventSum represents. Computes Y from blocks of `width` columns, as the library does.
Doubles Assemble(int64_t n, ResolventSum* sum, int64_t width) {
  Doubles y(At(n * n)), generators(At(n * sum->poles()));
  const int64_t poles = sum->poles();
  ResolventSum::Block block;
  for (int64_t first = 0; first < n; first += width) {
    const int64_t count = std::min(width, n - first);
    sum->Grow(count, &block);
    for (int64_t m = 0; m < count; ++m) {
      for (int64_t i = 0; i < first; ++i) {
        double element = 0;
        for (int64_t j = 0; j < poles; ++j) {
          element += static_cast<double>(block.factors[At(m * poles + j)]) * generators[At(i * poles + j)];
        }
        y[At((first + m) * n + i)] = element;
      }
      for (int64_t i = 0; i <= m; ++i) {
        y[At((first + m) * n + first + i)] = block.sums[At(m * ResolventSum::kColumns + i)];
      }
    }
    for (int64_t j = 0; j < poles; ++j) {
      for (int64_t i = 0; i < first; ++i) generators[At(i * poles + j)] *= block.growth[At(j)];
      for (int64_t i = 0; i < count; ++i) {
        generators[At((first + i) * poles + j)] = block.generators[At(j * ResolventSum::kColumns + i)];
      }
    }
  }
  Mirror(n, y.data());
  return y;
}

void CheckSum(const OwnedTridiagonal& t, double shift, int64_t width) {
  const Tridiagonal view = t.view();
  const int64_t n = view.n;
  CAPTURE(n);
  CAPTURE(width);
  const EigenvalueBounds bounds = BoundEigenvalues(view);
  REQUIRE(ResolventSum::IsSuitable(bounds, shift));
  Doubles memory(At(ResolventSum::Elements(n))), scratch(At(ResolventSum::ScratchElements(n)));
  ResolventSum sum(view, bounds, shift, memory.data());
  const Doubles expected = Apply(n, t.Dense(), [&](double l) { return 1 / std::sqrt(l + shift); });
  const Doubles y = Assemble(n, &sum, width);
  // The elements of ResolventSum::Block::factors are float32.
  CHECK(LargestDifference(y, expected) <= 3e-7 * LargestOf(expected));
  CHECK(sum.largest() * (1 + 1e-6) >= LargestOf(expected));

  Doubles b(At(n)), product(At(n)), dense_product(At(n));
  std::mt19937_64 random(1);
  for (double& element : b) element = std::normal_distribution<double>()(random);
  sum.Multiply(b.data(), scratch.data(), product.data());
  blas::Gemv(false, n, expected.data(), b.data(), dense_product.data());
  CHECK(LargestDifference(product, dense_product) <= 1e-7 * sum.largest() * 10 * LargestOf(b));
}

RootSpec SquareRoot(double relative_epsilon) {
  RootSpec spec;
  spec.exponent = -0.5;
  spec.numerator = 2;
  spec.relative_epsilon = relative_epsilon;
  return spec;
}

struct ComputedRoot {
  RootOutcome outcome;
  Doubles x;
};

// Computes an inverse root in the precision `dtype`. The arguments and results are float64, because a test scales `a`
// by powers of two so small that float32 could not represent all elements exactly.
ComputedRoot Compute(const RootSpec& spec, int64_t n, const Doubles& a, Dtype dtype) {
  std::vector<float> narrow(At(RootWorkspace<float>::Elements(RootMethod::kEigen, n)) + 8, -77.0f);
  Doubles wide(At(RootWorkspace<double>::Elements(RootMethod::kEigen, n)));
  std::vector<int32_t> ints(At(RootWorkspace<double>::Ints(n)));
  RecoveryMemory recovery;
  recovery.workspace = {wide.data(), ints.data()};
  const RootMemory memory{dtype, dtype == Dtype::kF64 ? static_cast<void*>(wide.data()) : narrow.data(), ints.data(),
                          &recovery};
  ComputedRoot root{{}, Doubles(At(n * n))};
  root.outcome = ComputeRoot(spec, SymmetricView<double>{n, a.data()}, memory, 1e300,
                             SymmetricTarget<double>::Full(n, root.x.data()));
  for (size_t i = narrow.size() - 8; i < narrow.size(); ++i) CHECK(narrow[i] == -77.0f);
  return root;
}

// Returns whether the inverse root of `a` is computed as a ResolventSum, which needs no eigenvectors.
bool TakesResolvents(const RootSpec& spec, int64_t n, const Doubles& a) {
  std::vector<float> memory(At(RootWorkspace<float>::Elements(RootMethod::kEigen, n)));
  const RootWorkspace<float> workspace{memory.data(), nullptr};
  const MatrixFacts facts = Inspect(SymmetricView<double>{n, a.data()});
  const double epsilon = spec.relative_epsilon > 0 ? spec.relative_epsilon * facts.mean_eigenvalue : spec.epsilon;
  const int scale = ScaleExponent(facts.largest, epsilon);
  LoadLower(SymmetricView<double>{n, a.data()}, scale, workspace.Matrix(n));
  return UsesResolvents(spec, Rung::kRequested, n) && RunResolvents(n, std::ldexp(epsilon, -scale), workspace).suitable;
}

// Returns the matrix with elements rounded to float32.
Doubles Narrowed(Doubles a) {
  for (double& element : a) element = static_cast<double>(static_cast<float>(element));
  return a;
}

// Computes the inverse square root of A in float32 and in float64, and checks the difference. A is `matrix`, rounded to
// float32. `condition` is an upper bound on the condition number of A + epsilon I.
void CheckRoot(const RootSpec& spec, const Doubles& matrix, double condition) {
  const auto n = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(matrix.size()))));
  CAPTURE(n);
  const Doubles a = Narrowed(matrix);
  CHECK(TakesResolvents(spec, n, a));
  const ComputedRoot root = Compute(spec, n, a, Dtype::kF32);
  const ComputedRoot exact = Compute(spec, n, a, Dtype::kF64);
  REQUIRE(root.outcome.ok());
  REQUIRE(exact.outcome.ok());
  CHECK(root.outcome.rungs_used == 0);
  CHECK(root.outcome.kind == RootKind::kEigen);
  bool is_symmetric = true;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) is_symmetric = is_symmetric && root.x[At(i * n + j)] == root.x[At(j * n + i)];
  }
  CHECK(is_symmetric);
  const double unit = std::numeric_limits<float>::epsilon();
  // The reduction to tridiagonal form changes A by about sqrt(n) units in the last place of its norm. If A changes by a
  // small fraction r of its norm, the inverse square root changes by at most a fraction r * condition / 2 of the norm
  // of the root.
  const double bound = 8 * unit + unit * std::sqrt(static_cast<double>(n)) * condition / 2;
  CHECK(LargestDifference(root.x, exact.x) <= bound * LargestOf(exact.x));
  CHECK(root.outcome.epsilon == exact.outcome.epsilon);
  CHECK(std::fabs(root.outcome.shift - exact.outcome.shift) <=
        4 * unit * std::sqrt(static_cast<double>(n)) * LargestOf(a));
}

}  // namespace

TEST_CASE("each Zolotarev sum approximates the inverse square root on its interval to within ZolotarevSum::kError") {
  for (int q = 1; q <= ZolotarevSum::kLargestCondition; ++q) {
    CAPTURE(q);
    const ZolotarevSum& sum = ZolotarevSum::ForCondition(q);
    CHECK(sum.count <= ZolotarevSum::kMaxPoles);
    double largest = 0;
    for (int i = 0; i <= 4000; ++i) {
      const double x = std::exp2(q * i / 4000.0);
      double value = 0;
      for (size_t j = 0; j < At(sum.count); ++j) {
        CHECK(sum.weights[j] > 0);
        value += sum.weights[j] / (x + sum.poles[j]);
      }
      largest = std::max(largest, std::fabs(value * std::sqrt(x) - 1));
    }
    CHECK(largest <= ZolotarevSum::kError);
    // If the error were far below the limit, the sum would have more poles than it needs.
    CHECK(largest >= ZolotarevSum::kError / 40);
  }
}

TEST_CASE("bounds on eigenvalues hold, and the lower bound is sharp if the least eigenvalue is negative") {
  const BlasFixture blas;
  for (const int64_t n : {1, 2, 3, 16, 33, 100}) {
    for (const double shift : {0.0, 1e-7, 1e-3, 0.5, 5.0, -0.3, -20.0}) {
      CAPTURE(n);
      CAPTURE(shift);
      OwnedTridiagonal t = DrawTridiagonal(n, 5, 0.01);
      const Doubles before = SolveDense(n, t.Dense()).l;
      for (double& element : t.d) element -= before[0] - shift;  // the least eigenvalue becomes `shift`
      const Doubles l = SolveDense(n, t.Dense()).l;
      const double norm = std::max(std::fabs(l.front()), std::fabs(l.back()));
      const EigenvalueBounds bounds = BoundEigenvalues(t.view());
      CHECK(bounds.largest >= l.back() - 1e-14 * norm);
      CHECK(bounds.largest <= 3 * norm + 1e-300);
      CHECK(bounds.least <= l.front() + 1e-14 * norm);
      if (shift < 0) CHECK(bounds.least >= l.front() - 4e-12 * norm);
      if (shift > 0) CHECK(bounds.least >= std::min(l.front() / 4.1, 0x1p-30 * norm));
    }
  }
}

TEST_CASE(
    "a ResolventSum equals the inverse square root of its tridiagonal matrix for any number of columns per block") {
  const BlasFixture blas;
  for (const int64_t n : {1, 2, 3, 31, 32, 33, 64, 100}) {
    for (const int64_t width : {1, 7, 32}) {
      CheckSum(DrawTridiagonal(n, 1000, 0.5), 0, width);
      CheckSum(DrawTridiagonal(n, 3, 1e-3), 1e-5, width);
      CheckSum(DrawTridiagonal(n, 1, 1e-3), 1e-2, width);  // a diagonal matrix
    }
  }
}

TEST_CASE("the tridiagonal matrix and the reflections of the one-pass reduction reproduce the original matrix") {
  const BlasFixture blas;
  if (BestKernels().tridiagonal.reduce == nullptr)
    MESSAGE("this processor has no one-pass reduction: nothing is compared");
  for (const Kernels* const* kernels = UsableKernels(); *kernels != nullptr; ++kernels) {
    const auto reduce = (*kernels)->tridiagonal.reduce;
    if (reduce == nullptr) continue;
    CAPTURE(std::string((*kernels)->name));
    for (const int64_t n : {1, 2, 3, 4, 5, 15, 16, 17, 18, 31, 33, 64, 97}) {
      for (const int kind : {0, 1, 2}) {  // 0: distinct eigenvalues, 1: rank of at most 3, 2: a diagonal matrix
        CAPTURE(n);
        CAPTURE(kind);
        Doubles a = WithEigenvaluesBy(
            n, [&](int64_t i) { return kind == 1 && i > 2 ? 0.0 : 1.0 / (1.0 + static_cast<double>(i)); });
        if (kind == 2) a = OwnedTridiagonal{Doubles(At(n), 0.5), Doubles(At(n), 0.0)}.Dense();
        const int64_t ld = (n + 15) / 16 * 16;
        std::vector<float> v(At(n * ld)), tau(At(n)), work(At(4 * ld), std::numeric_limits<float>::quiet_NaN());
        OwnedTridiagonal t{Doubles(At(n)), Doubles(At(n))};
        for (int64_t i = 0; i < n; ++i) {
          for (int64_t j = 0; j <= i; ++j) v[At(i * ld + j)] = static_cast<float>(a[At(i * n + j)]);
        }
        reduce(v.data(), ld, n, t.d.data(), t.e.data(), tau.data(), work.data());
        // A = H(n-2) ... H(0) T H(0) ... H(n-2), where T is the tridiagonal matrix, and H(i) = I - tau[i] h h^T
        Doubles product = t.Dense();
        for (int64_t i = 0; i + 1 < n; ++i) {
          Doubles h(At(n));
          for (int64_t j = 0; j < i; ++j) h[At(j)] = static_cast<double>(v[At((i + 1) * ld + j)]);
          h[At(i)] = 1;
          for (int side = 0; side < 2; ++side) {
            for (int64_t row = 0; row < n; ++row) {
              const auto element = [&](int64_t j) -> double& {
                return product[At(side == 0 ? row * n + j : j * n + row)];
              };
              double dot = 0;
              for (int64_t j = 0; j <= i; ++j) dot += element(j) * h[At(j)];
              for (int64_t j = 0; j <= i; ++j) element(j) -= static_cast<double>(tau[At(i)]) * dot * h[At(j)];
            }
          }
        }
        CHECK(LargestDifference(product, a) <= 4e-7 * std::sqrt(static_cast<double>(n)));
      }
    }
  }
}

TEST_CASE("inverse square roots that are computed in float32 without eigenvectors agree with those in float64") {
  const BlasFixture blas;
  const RootSpec spec = SquareRoot(1e-5);
  for (const int64_t n : {8, 9, 16, 17, 32, 33, 34, 64, 65, 100, 128, 129, 200, 512}) {
    const double size = static_cast<double>(n);
    CheckRoot(spec, WithEigenvaluesBy(n, [&](int64_t i) { return 1 + static_cast<double>(i) / size; }), 2);
    CheckRoot(spec, WithEigenvaluesBy(n, [](int64_t i) { return i % 3 == 0 ? 1.0 : 0.5; }), 2);
    CheckRoot(spec, WithEigenvaluesBy(n, [](int64_t i) { return 1 + 1e-7 * static_cast<double>(i); }), 2);
    CheckRoot(spec, WithEigenvaluesBy(n, [&](int64_t i) { return std::pow(10, -4 * static_cast<double>(i) / size); }),
              2e4);
    // With rank 3 and a relative epsilon of 1e-3, the condition number is slightly above 1000 n / 3.
    CheckRoot(SquareRoot(1e-3), WithEigenvaluesBy(n, [](int64_t i) { return i < 3 ? 1.0 : 0.0; }), 400 * size);
  }
}

TEST_CASE("inverse square roots of block diagonal matrices and of matrices with negative eigenvalues are accurate") {
  const BlasFixture blas;
  for (const int64_t n : {8, 33, 96, 160}) {
    // The matrix has two diagonal blocks, and rows whose elements off the diagonal are all 0.
    Doubles blocks = WithEigenvaluesBy(n, [](int64_t i) { return 1 + static_cast<double>(i % 5); });
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        if (i != j && ((i < n / 2) != (j < n / 2) || i % 4 == 0 || j % 4 == 0)) blocks[At(i * n + j)] = 0;
      }
      blocks[At(i * n + i)] += 2;
    }
    CheckRoot(SquareRoot(1e-5), blocks, 10);
    Doubles diagonal(At(n * n));  // stored as a full matrix
    for (int64_t i = 0; i < n; ++i) diagonal[At(i * n + i)] = 1 + static_cast<double>(i % 7);
    CheckRoot(SquareRoot(1e-5), diagonal, 7);
    // The library subtracts the negative eigenvalue from all eigenvalues, and then adds epsilon.
    RootSpec absolute = SquareRoot(0);
    absolute.epsilon = 0.01;
    CheckRoot(absolute, WithEigenvaluesBy(n, [](int64_t i) { return i == 1 ? -0.25 : static_cast<double>(i % 4); }),
              330);
    const Doubles a = WithEigenvaluesBy(n, [](int64_t i) { return 1 + static_cast<double>(i % 9); });
    for (const double factor : {0x1p-120, 0x1p120}) CheckRoot(SquareRoot(1e-5), Scaled(a, factor), 9);
  }
}

TEST_CASE(
    "inverse square roots are nearly equal with LAPACK's reduction to tridiagonal form and with the one-pass "
    "reduction") {
  const BlasFixture blas;
  if (BestKernels().tridiagonal.reduce == nullptr)
    MESSAGE("this processor has no one-pass reduction: nothing is compared");
  for (const int64_t n : {8, 33, 100, 130}) {
    CAPTURE(n);
    const Doubles a = WithEigenvaluesBy(n, [](int64_t i) { return 1 + static_cast<double>(i % 6); });
    std::vector<float> roots[2];
    for (const bool by_lapack : {false, true}) {
      std::vector<float> memory(At(RootWorkspace<float>::Elements(RootMethod::kEigen, n)));
      const RootWorkspace<float> workspace{memory.data(), nullptr};
      LoadLower(SymmetricView<double>{n, a.data()}, 3, workspace.Matrix(n));
      const ResolventResult result = RunResolvents(n, 1e-5, workspace, by_lapack);
      REQUIRE(result.suitable);
      REQUIRE(result.solver_info == 0);
      CHECK(result.root_error <= 3e-7);
      roots[by_lapack ? 1 : 0].assign(result.x, result.x + n * n);
    }
    CHECK(LargestDifference(roots[0], roots[1]) <= 2e-5);
  }
}

TEST_CASE(
    "multiplying a matrix by a power of four changes only the exponents of the elements of its inverse square root") {
  const BlasFixture blas;
  for (const int64_t n : {8, 40, 130}) {
    const Doubles a =
        Narrowed(WithEigenvaluesBy(n, [](int64_t i) { return std::pow(2, -static_cast<double>(i % 12)); }));
    const Doubles x = Compute(SquareRoot(1e-5), n, a, Dtype::kF32).x;
    for (const int power : {-60, -7, 1, 30, 60}) {
      CAPTURE(power);
      const Doubles scaled = Scaled(a, std::ldexp(1, 2 * power));
      CHECK(Compute(SquareRoot(1e-5), n, scaled, Dtype::kF32).x == Scaled(x, std::ldexp(1, -power)));
    }
  }
}

TEST_CASE(
    "roots of ill-conditioned matrices and roots with an exponent other than -1/2 are computed with eigenvectors") {
  const BlasFixture blas;
  const int64_t n = 20;
  const Doubles a = WithEigenvaluesBy(n, [](int64_t i) { return i < 3 ? 1.0 : 0.0; });
  RootSpec spec = SquareRoot(0);
  spec.epsilon = 1e-10;
  CHECK(!TakesResolvents(spec, n, a));
  spec.epsilon = 1e-6;
  CHECK(TakesResolvents(spec, n, a));
  CHECK(!UsesResolvents(spec, Rung::kFloat64, n));
  CHECK(!UsesResolvents(spec, Rung::kRequested, kMinResolventSize - 1));
  CHECK(!UsesResolvents(spec, Rung::kRequested, kMaxResolventSize + 1));
  RootSpec fourth = spec;
  fourth.exponent = -0.25;
  CHECK(!UsesResolvents(fourth, Rung::kRequested, n));
  RootSpec pseudo = spec;
  pseudo.pseudo_inverse = true;
  CHECK(!UsesResolvents(pseudo, Rung::kRequested, n));
}

}  // namespace shampoo
