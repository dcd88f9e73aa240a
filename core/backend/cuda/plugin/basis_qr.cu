// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Kernels of orthogonal iteration, which computes eigenbases. One CTA processes one matrix. basis_solver.cc launches
// these kernels, and makes the matrix products between them.
#include "core/backend/cuda/plugin/basis_common.h"

namespace shampoo::cuda {
namespace {

template <typename Real>
struct OrderColumnsBody {
  BasisArgs args;
  BasisRun run;
  const void* q;
  const void* product;
  ColumnOrder order;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BasisFactor<Real> factor(args, run, cta.index());
    const int64_t d = factor.d;
    const Real* const vectors = factor.In(q);
    const Real* const products = factor.In(product);
    double* const estimates = factor.Sums(args);
    int32_t* const to = factor.Order(args);
    cta.ForEach(d, [&](int64_t j) {
      Real sum = 0;
      for (int64_t i = 0; i < d; ++i) sum += vectors[i * d + j] * products[i * d + j];
      estimates[j] = static_cast<double>(sum);
    });
    const bool is_increasing = order == ColumnOrder::kIncreasing;
    cta.ForEach(d, [&](int64_t j) {
      int64_t before = 0;
      for (int64_t other = 0; other < d; ++other) {
        const double a = is_increasing ? estimates[j] : estimates[other];
        const double b = is_increasing ? estimates[other] : estimates[j];
        before += a > b || (a == b && other < j) ? 1 : 0;
      }
      // If an estimate is NaN, several columns may get the same place. Each element of `to` that is not written keeps
      // the index that ScaleFactors() stored, so all elements are valid indices.
      to[before] = static_cast<int32_t>(j);
    });
  }
};

template <typename Real>
struct PermuteColumnsBody {
  BasisArgs args;
  BasisRun run;
  const void* from;
  void* to;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BasisFactor<Real> factor(args, run, cta.index());
    const int64_t d = factor.d;
    const Real* const source = factor.In(from);
    Real* const target = factor.In(to);
    const int32_t* const order = factor.Order(args);
    cta.ForEach(d * d, [&](int64_t i) { target[i] = source[i - i % d + order[i % d]]; });
  }
};

// Householder's method, as in LAPACK's geqr2 and org2r. A thread processes whole columns, so that neighboring threads
// read neighboring elements of a row.
template <typename Real>
struct OrthogonalizeBody {
  BasisArgs args;
  BasisRun run;
  const void* q;
  void* a;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BasisFactor<Real> factor(args, run, cta.index());
    const int64_t d = factor.d;
    Real* const matrix = factor.In(a);
    if (factor.member.is_reached != 0) {
      const Real* const reached = factor.In(q);
      return cta.ForEach(d * d, [&](int64_t i) { matrix[i] = reached[i]; });
    }
    double* const multipliers = factor.Sums(args);
    for (int64_t j = 0; j < d; ++j) Reflect(cta, d, j, matrix, multipliers);
    for (int64_t j = d - 1; j >= 0; --j) FormColumns(cta, d, j, matrix, static_cast<Real>(multipliers[j]));
    const bool is_finite =
        cta.First(d * d, [&](int64_t i) { return !IsFinite(static_cast<double>(matrix[i])); }) == d * d;
    cta.Once([&] {
      if (!is_finite && factor.member.failure == RootFailure::kNone) factor.member.failure = RootFailure::kWrongResult;
    });
  }

 private:
  // Computes the reflector that eliminates the elements of column j below the diagonal. Stores the reflector in the
  // place of these elements. Applies the reflector to the columns to the right of column j.
  SHAMPOO_DEVICE static void Reflect(const Cta& cta, int64_t d, int64_t j, Real* matrix, double* multipliers) {
    const auto at = [&](int64_t i) -> Real& { return matrix[i * d + j]; };
    const double below = cta.Sum(d - 1 - j, [&](int64_t i) {
      const auto value = static_cast<double>(at(j + 1 + i));
      return value * value;
    });
    const auto first = static_cast<double>(at(j));
    const double length = sqrt(first * first + below);
    const double reflected = first > 0 ? -length : length;
    const double multiplier = below == 0 ? 0 : (reflected - first) / reflected;
    cta.Once([&] { multipliers[j] = multiplier; });
    if (below == 0) return;  // always true for the last column
    cta.ForEach(d - 1 - j, [&](int64_t i) {
      at(j + 1 + i) = static_cast<Real>(static_cast<double>(at(j + 1 + i)) / (first - reflected));
    });
    Apply(cta, d, j, matrix, static_cast<Real>(multiplier));
  }

  // Applies reflector j to the columns to the right of column j.
  SHAMPOO_DEVICE static void Apply(const Cta& cta, int64_t d, int64_t j, Real* matrix, Real multiplier) {
    cta.ForEach(d - 1 - j, [&](int64_t column) {
      const int64_t c = j + 1 + column;
      Real sum = matrix[j * d + c];
      for (int64_t i = j + 1; i < d; ++i) sum += matrix[i * d + j] * matrix[i * d + c];
      sum *= multiplier;
      matrix[j * d + c] -= sum;
      for (int64_t i = j + 1; i < d; ++i) matrix[i * d + c] -= matrix[i * d + j] * sum;
    });
  }

  // Applies reflector j to the product of the reflectors with higher numbers. This product is in the columns to the
  // right of column j. Also writes column j of the new product.
  SHAMPOO_DEVICE static void FormColumns(const Cta& cta, int64_t d, int64_t j, Real* matrix, Real multiplier) {
    cta.ForEach(d - 1 - j, [&](int64_t column) { matrix[j * d + j + 1 + column] = 0; });
    Apply(cta, d, j, matrix, multiplier);
    cta.ForEach(d - 1 - j, [&](int64_t i) { matrix[(j + 1 + i) * d + j] *= -multiplier; });
    cta.Once([&] { matrix[j * d + j] = 1 - multiplier; });
  }
};

template <typename Real>
struct FinishIterationBody {
  BasisArgs args;
  BasisRun run;
  const void* q;
  int32_t sorts;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BasisFactor<Real> factor(args, run, cta.index());
    const int64_t d = factor.d;
    const int32_t* const order = factor.Order(args);
    const Real* const from = factor.In(q);
    Real* const to = factor.In(args.batch.matrices);
    if (sorts == 0) return cta.ForEach(d * d, [&](int64_t i) { to[i] = from[i]; });
    const bool is_sorted = cta.First(d, [&](int64_t i) { return order[i] != i; }) == d;
    cta.Once([&] {
      if (!is_sorted) factor.member.is_kept = 0;
    });
    cta.ForEach(d * d, [&](int64_t i) { to[i] = from[i - i % d + order[i % d]]; });
  }
};

}  // namespace

cudaError_t OrderColumns(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, const void* q,
                         const void* product, ColumnOrder order) {
  return LaunchBasis<OrderColumnsBody>(stream, run.count, args, run, q, product, order);
}

cudaError_t PermuteColumns(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, const void* from,
                           void* to) {
  return LaunchBasis<PermuteColumnsBody>(stream, run.count, args, run, from, to);
}

cudaError_t Orthogonalize(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, const void* q, void* a) {
  return LaunchBasis<OrthogonalizeBody>(stream, run.count, args, run, q, a);
}

cudaError_t FinishIteration(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, const void* q,
                            bool sorts) {
  return LaunchBasis<FinishIterationBody>(stream, run.count, args, run, q, sorts ? 1 : 0);
}

}  // namespace shampoo::cuda
