// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/roots/eigenbasis.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <type_traits>
#include <utility>

#include "core/blas/blas.h"
#include "core/blas/eigensolver_stages.h"
#include "core/roots/probe.h"
#include "core/roots/solver.h"
#include "core/rules/basis.h"

namespace shampoo {
namespace {

// to <- the lower triangle of A * 2^-scale, where A = matrix + epsilon I.
template <typename Real, typename Root>
void LoadScaled(const BasisSpec& spec, const SymmetricView<Real>& matrix, int scale, Root* to) {
  LoadLower(matrix, scale, to);
  if (spec.epsilon == 0) return;
  const auto added = static_cast<Root>(std::ldexp(spec.epsilon, -scale));
  for (int64_t i = 0; i < matrix.n; ++i) to[i * matrix.n + i] += added;
}

// Writes the eigenvectors to the rows of workspace.Matrix(n), in the order of increasing eigenvalues.
template <typename Real, typename Root>
RootOutcome TryDriver(const BasisSpec& spec, Rung rung, EigenDriver driver, const SymmetricView<Real>& matrix,
                      int scale, const RootWorkspace<Root>& workspace) {
  const int64_t n = matrix.n;
  Root* const a = workspace.Matrix(n);
  Root* const l = workspace.Vector(0, n);
  LoadScaled(spec, matrix, scale, a);
  EigenProbe<Root> probe(n, workspace);
  probe.BeforeSolve(a);
  RootSpec root;
  root.id = spec.id;
  RootOutcome outcome;
  outcome.rung = rung;
  outcome.solver_info = SolveEigen(root, rung, driver, n, a, l, workspace);
  if (outcome.solver_info != 0) {
    outcome.failure = RootFailure::kSolver;
  } else if (!probe.Fits(a, l)) {
    outcome.failure = RootFailure::kWrongResult;
  }
  return outcome;
}

// Writes the rows of `vectors` to the columns of q: in reverse order or, if `ascending`, in the same order.
template <typename Root, typename Real>
void RowsToColumns(int64_t n, const Root* vectors, bool ascending, Real* q) {
  for (int64_t j = 0; j < n; ++j) {
    const Root* const row = vectors + (ascending ? j : n - 1 - j) * n;
    for (int64_t i = 0; i < n; ++i) q[i * n + j] = static_cast<Real>(row[i]);
  }
}

template <typename Real>
RootOutcome Decompose(const BasisSpec& spec, const SymmetricView<Real>& matrix, int scale,
                      const BasisMemory<Real>& memory) {
  const int64_t n = matrix.n;
  const bool ascending = spec.sort == BasisSort::kAscending;
  RootOutcome first = TryDriver(spec, Rung::kRequested, EigenDriver::kDivideAndConquer, matrix, scale, memory.own);
  if (first.ok()) {
    RowsToColumns(n, memory.own.Matrix(n), ascending, memory.Basis(n));
    return first;
  }
  constexpr bool kIsWide = std::is_same_v<Real, double>;
  std::unique_lock<std::mutex> lock;
  RootWorkspace<double> workspace;
  if constexpr (kIsWide) {
    workspace = memory.own;
  } else {
    lock = std::unique_lock<std::mutex>(memory.recovery->mutex);
    workspace = memory.recovery->workspace;
  }
  RootOutcome last = first;
  int used = 0;
  for (const auto& [rung, driver] : {std::pair(Rung::kFloat64, EigenDriver::kDivideAndConquer),
                                     std::pair(Rung::kEigenRrr, EigenDriver::kRelativelyRobust),
                                     std::pair(Rung::kEigenQr, EigenDriver::kImplicitQr)}) {
    if (rung == Rung::kFloat64 && kIsWide) continue;
    last = TryDriver(spec, rung, driver, matrix, scale, workspace);
    ++used;
    if (!last.ok()) continue;
    RowsToColumns(n, workspace.Matrix(n), ascending, memory.Basis(n));
    break;
  }
  last.first_failure = first.failure;
  last.rungs_used = used;
  return last;
}

// order <- the indices of the columns of q, sorted by estimates of their eigenvalues: by decreasing or, if `ascending`,
// by increasing estimates. The estimates are the diagonal of Q^T A Q. aq: A Q.
template <typename Real>
void OrderColumns(int64_t n, const Real* q, const Real* aq, bool ascending, Real* estimates, int32_t* order) {
  std::fill(estimates, estimates + n, Real{0});
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) estimates[j] += q[i * n + j] * aq[i * n + j];
  }
  std::iota(order, order + n, 0);
  // std::stable_sort would allocate memory.
  std::sort(order, order + n, [&](int32_t a, int32_t b) {
    const Real of_a = estimates[a];
    const Real of_b = estimates[b];
    if (of_a != of_b) return ascending ? of_a < of_b : of_a > of_b;
    return a < b;
  });
}

template <typename Real>
void PermuteColumns(int64_t n, const Real* from, const int32_t* order, Real* to) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) to[i * n + j] = from[i * n + order[j]];
  }
}

template <typename Real>
double SquareOf(int64_t n, const Real* a) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(a[i]);
  return sum;
}

// The number of rows of Q^T A Q that IsAccurate computes at a time.
constexpr int64_t kRotatedRows = 32;

// Returns whether A is nearly diagonal in the basis q. aq: A Q. rows: memory for kRotatedRows rows.
template <typename Real>
bool IsAccurate(const BasisSpec& spec, int64_t n, const Real* a, const Real* q, const Real* aq, Real* rows) {
  double off_diagonal = 0;
  for (int64_t first = 0; first < n; first += kRotatedRows) {
    const int64_t count = std::min(kRotatedRows, n - first);
    blas::Gemm(blas::Product<Real>{true, false, Real{1}, Real{0}}, count, n, n, q + first, n, aq, n, rows, n);
    for (int64_t i = 0; i < count; ++i) {
      rows[i * n + first + i] = 0;
      off_diagonal += SquareOf(n, rows + i * n);
    }
  }
  return IsBasisAccurate(spec.tolerance, off_diagonal, SquareOf(n * n, a));
}

// Computes the basis by orthogonal iteration. Uses three n x n arrays: one holds A; the other two hold the basis and A
// times the basis, and exchange their roles in each iteration.
template <typename Real>
BasisOutcome Iterate(const BasisSpec& spec, const SymmetricView<Real>& matrix, int scale, const Real* previous,
                     const BasisMemory<Real>& memory) {
  const int64_t n = matrix.n;
  Real* const a = memory.own.Work(n);
  Real* product = memory.own.Matrix(n);
  Real* spare = memory.Spare(n);
  Real* const estimates = memory.own.Vector(0, n);
  Real* const tau = memory.own.Vector(1, n);
  Real* const work = memory.own.Work(n) + 2 * n * n;
  LoadScaled(spec, matrix, scale, a);
  Mirror(n, a);
  std::iota(memory.Order(), memory.Order() + n, 0);
  BasisOutcome outcome;
  const Real* q = previous;
  for (int64_t i = 0; i < spec.iterations; ++i) {
    blas::Gemm(n, n, n, a, n, q, n, product, n);
    if (spec.tolerance > 0 && IsAccurate(spec, n, a, q, product, work)) break;
    if (i == 0 && spec.sort == BasisSort::kBefore) {
      OrderColumns(n, q, product, false, estimates, memory.Order());
      PermuteColumns(n, product, memory.Order(), spare);
      std::swap(product, spare);
    }
    outcome.root.solver_info = blas::Orthogonalize(n, product, tau, work);
    if (outcome.root.solver_info != 0 || !AllFinite(product, n * n)) {
      outcome.root.failure = outcome.root.solver_info != 0 ? RootFailure::kSolver : RootFailure::kWrongResult;
      return outcome;
    }
    q = product;
    std::swap(product, spare);
  }
  if (spec.sort == BasisSort::kAfter || spec.sort == BasisSort::kAscending) {
    // Columns are sorted even if the previous basis is accurate enough.
    blas::Gemm(n, n, n, a, n, q, n, product, n);
    int32_t* const order = memory.Order() + n;
    OrderColumns(n, q, product, spec.sort == BasisSort::kAscending, estimates, order);
    outcome.is_kept = q == previous && std::is_sorted(order, order + n);
    if (!outcome.is_kept) PermuteColumns(n, q, order, a);
    return outcome;
  }
  outcome.is_kept = q == previous;
  if (!outcome.is_kept) std::copy(q, q + n * n, a);
  return outcome;
}

}  // namespace

template <typename Real>
BasisOutcome ComputeBasis(const BasisSpec& spec, const SymmetricView<Real>& matrix, const Real* previous,
                          const BasisMemory<Real>& memory) {
  const int64_t n = matrix.n;
  const MatrixFacts facts = Inspect(matrix);
  BasisOutcome outcome;
  outcome.root.failure = facts.failure;
  outcome.root.diagonal_input = facts.diagonal;
  if (!outcome.root.ok()) return outcome;
  const bool iterates = spec.method == BasisMethod::kQr && previous != nullptr;
  if (IsBasisIdentity(iterates, n, facts.negligible)) {
    Real* const q = memory.Basis(n);
    std::fill(q, q + n * n, Real{0});
    for (int64_t i = 0; i < n; ++i) q[i * n + i] = 1;
    outcome.root.kind = n == 1 ? RootKind::kScalar : RootKind::kDiagonal;
    return outcome;
  }
  const int scale = ScaleExponent(facts.largest, spec.epsilon);
  if (iterates) return Iterate(spec, matrix, scale, previous, memory);
  if (spec.tolerance > 0 && previous != nullptr) {
    Real* const a = memory.own.Work(n);
    LoadScaled(spec, matrix, scale, a);
    Mirror(n, a);
    Real* const product = memory.own.Matrix(n);
    blas::Gemm(n, n, n, a, n, previous, n, product, n);
    outcome.is_kept = IsAccurate(spec, n, a, previous, product, memory.Spare(n));
    if (outcome.is_kept) return outcome;
  }
  outcome.root = Decompose(spec, matrix, scale, memory);
  outcome.root.diagonal_input = facts.diagonal;
  return outcome;
}

template BasisOutcome ComputeBasis<float>(const BasisSpec&, const SymmetricView<float>&, const float*,
                                          const BasisMemory<float>&);
template BasisOutcome ComputeBasis<double>(const BasisSpec&, const SymmetricView<double>&, const double*,
                                           const BasisMemory<double>&);

}  // namespace shampoo
