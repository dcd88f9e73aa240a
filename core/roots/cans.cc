// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/roots/cans.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/blas/mirror.h"
#include "core/blas/symmetric_product.h"
#include "core/roots/probe.h"
#include "core/rules/cans_scalars.h"
#include "core/rules/coupled_scalars.h"

namespace shampoo {
namespace {

// The iteration of core/rules/cans_scalars.h, with the matrices Y, Z and P. They are polynomials in one symmetric
// matrix. Therefore they commute, their products are symmetric, and one triangle of a product suffices.
class CansIteration {
 public:
  CansIteration(int64_t n, const RootWorkspace<double>& workspace)
      : n_(n),
        y_(workspace.Matrix(0, n)),
        z_(workspace.Matrix(1, n)),
        p_(workspace.Matrix(2, n)),
        s_(workspace.Matrix(3, n)) {}

  double* y() const { return y_; }
  double* z() const { return z_; }
  double* spare() const { return s_; }

  // Divides Y by its largest row sum of magnitudes, runs all steps on the quotient C, and returns the row sum. If
  // is_inverse, sets Z <- C^(-1/2) and leaves Y undefined. Otherwise sets Y <- C^(1/2) and leaves Z undefined.
  double Run(bool is_inverse) {
    const double norm = LargestRowSum();
    for (int64_t i = 0; i < n_ * n_; ++i) y_[i] /= norm;
    std::copy(y_, y_ + n_ * n_, p_);
    for (const CansStep& step : kCansSteps) {
      const bool is_first = &step == &kCansSteps.front();
      const bool is_last = &step == &kCansSteps.back();
      for (int64_t i = 0; i < n_ * n_; ++i) p_[i] *= step.a;
      for (int64_t i = 0; i < n_; ++i) p_[i * n_ + i] += step.b;
      if (is_first) {
        std::copy(p_, p_ + n_ * n_, z_);
      } else if (!is_last || is_inverse) {
        Multiply(p_, z_, s_);
        std::swap(z_, s_);
      }
      if (!is_last || !is_inverse) {
        Multiply(y_, p_, s_);
        std::swap(y_, s_);
      }
      if (!is_last) Multiply(z_, y_, p_);
    }
    return norm;
  }

 private:
  void Multiply(const double* a, const double* b, double* c) const { blas::SymmetricProduct(n_, 1.0, a, b, 0.0, c); }

  double LargestRowSum() const {
    double largest = 0;
    for (int64_t i = 0; i < n_; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < n_; ++j) sum += std::fabs(y_[i * n_ + j]);
      if (!(sum <= largest)) largest = sum;  // true also if the sum is NaN
    }
    return largest;
  }

  int64_t n_;
  double* y_;
  double* z_;
  double* p_;
  double* s_;
};

}  // namespace

CansResult CansRoot(const RootSpec& spec, int64_t n, int scale, const RootWorkspace<double>& workspace) {
  CansIteration iteration(n, workspace);
  CansResult result;
  result.shift = NewtonShift(spec, scale);
  for (int64_t i = 0; i < n; ++i) iteration.y()[i * n + i] += result.shift;
  const int passes = CansPasses(spec);
  double norm = iteration.Run(passes == 1);
  if (passes == 2) {
    Mirror(n, iteration.y());
    norm = std::sqrt(norm) * iteration.Run(true);
  }
  const double factor = 0.5 / std::sqrt(norm);
  const double* const z = iteration.z();
  result.x = iteration.spare();
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      result.x[i * n + j] = result.x[j * n + i] = factor * (z[i * n + j] + z[j * n + i]);
    }
  }
  result.spare = iteration.y();
  result.iterations = passes * static_cast<int>(kCansSteps.size());
  return result;
}

double CansResidual(const RootSpec& spec, int64_t n, const double* b, const double* x,
                    const RootWorkspace<double>& workspace) {
  const auto power = static_cast<int>(-1 / spec.exponent);
  double* const r = workspace.Vector(0, n);
  double* from = workspace.Vector(1, n);
  double* to = workspace.Vector(2, n);
  FillSigns(n, r);
  double before = std::sqrt(static_cast<double>(n));
  double ratio = 0;
  for (int product = 0; product < kCansProducts; ++product) {
    std::copy(r, r + n, from);
    for (int i = 0; i <= power; ++i) {
      blas::Gemv(false, n, i == power / 2 ? b : x, from, to);
      std::swap(from, to);
    }
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      r[i] -= from[i];
      sum += r[i] * r[i];
    }
    const double after = std::sqrt(sum);
    if (after == 0) return 0;
    ratio = after / before;
    before = after;
  }
  return ratio;
}

}  // namespace shampoo
