// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/roots/coupled.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/blas/symmetric_product.h"
#include "core/roots/matrix.h"
#include "core/rules/coupled_scalars.h"

namespace shampoo {
namespace {

// B is the scaled and shifted matrix (core/roots/coupled.h). X converges to the root B^(-1/p), Y = B X^p converges to
// I, and T is the factor of one iteration. All matrices of an iteration are polynomials in B, so they are symmetric
// and commute. Therefore powers are computed by repeated squaring, SYRK computes the squares, and
// blas::SymmetricProduct computes all other products. For large matrices, both compute only one triangle, which takes
// half the time.
template <typename Root>
class Iteration {
 public:
  Iteration(int64_t n, const RootWorkspace<Root>& workspace)
      : n_(n),
        y_(workspace.Matrix(0, n)),
        x_(workspace.Matrix(1, n)),
        t_(workspace.Matrix(2, n)),
        s_(workspace.Matrix(3, n)) {}

  Root* y() const { return y_; }
  Root* t() const { return t_; }
  Root* spare() const { return s_; }

  void AddToDiagonal(Root* matrix, double value) const {
    for (int64_t i = 0; i < n_; ++i) matrix[i * n_ + i] += static_cast<Root>(value);
  }

  // Sets Y <- z Y and X <- z^(1/p) I. Stores only the scalar of X, because the first product X T is a multiple of T.
  void Start(double z, int64_t p) {
    const auto factor = static_cast<Root>(z);
    for (int64_t i = 0; i < n_ * n_; ++i) y_[i] *= factor;
    x_scalar_ = RootOfMultiple(z, p);
    x_is_scalar_ = true;
  }

  double Error() const {
    double largest = 0;
    for (int64_t i = 0; i < n_; ++i) {
      for (int64_t j = 0; j < n_; ++j) {
        const double error = std::fabs(static_cast<double>(y_[i * n_ + j] - (i == j ? Root{1} : Root{0})));
        if (std::isnan(error)) return error;
        largest = std::max(largest, error);
      }
    }
    return largest;
  }

  // T <- ((p + 1) I - Y) / p
  void NewtonFactor(int64_t p) {
    const Root divisor = static_cast<Root>(p);
    for (int64_t i = 0; i < n_ * n_; ++i) t_[i] = -y_[i] / divisor;
    AddToDiagonal(t_, NewtonDiagonal(p));
  }

  // T <- the sum of b_i (I - Y)^i for i < order, the truncated power series of Y^(-1/p), by Horner's rule. b_i is
  // SeriesCoefficient(i, p).
  void SeriesFactor(int64_t order, int64_t p) {
    const auto coefficient = [p](int64_t i) { return SeriesCoefficient(i, p); };
    // The first two terms of Horner's rule need no product: b_(order-1) (I - Y) + b_(order-2) I.
    const double last = coefficient(order - 1);
    for (int64_t i = 0; i < n_ * n_; ++i) t_[i] = static_cast<Root>(-last) * y_[i];
    AddToDiagonal(t_, last + coefficient(order - 2));
    for (int64_t i = order - 3; i >= 0; --i) {
      // T <- T - T Y + b_i I
      std::copy(t_, t_ + n_ * n_, s_);
      blas::SymmetricProduct(n_, Root{-1}, t_, y_, Root{1}, s_);
      std::swap(t_, s_);
      AddToDiagonal(t_, coefficient(i));
    }
  }

  // X <- X T, Y <- T^p Y
  void Advance(int64_t p) {
    if (x_is_scalar_) {
      for (int64_t i = 0; i < n_ * n_; ++i) x_[i] = static_cast<Root>(x_scalar_) * t_[i];
      x_is_scalar_ = false;
    } else {
      blas::SymmetricProduct(n_, Root{1}, x_, t_, Root{0}, s_);
      std::swap(x_, s_);
    }
    MultiplyByPower(n_, p, &t_, &y_, &s_);
    // If n is at most 64, rounding errors make the Y that blas::SymmetricProduct computes slightly asymmetric. T of the
    // next iteration is computed from Y, and SYRK squares T as T T^T instead of T T: the antisymmetric part of the
    // second factor has the wrong sign. Without Mirror(), the antisymmetric part of Y would therefore grow in each
    // iteration.
    Mirror(n_, y_);
  }

  CoupledResult<Root> Finish(CoupledResult<Root> result) {
    if (x_is_scalar_) {
      std::fill(x_, x_ + n_ * n_, Root{0});
      AddToDiagonal(x_, x_scalar_);
    }
    Mirror(n_, x_);
    result.x = x_;
    result.spare[0] = y_;
    result.spare[1] = t_;
    result.spare[2] = s_;
    return result;
  }

 private:
  int64_t n_;
  Root* y_;
  Root* x_;
  Root* t_;
  Root* s_;
  double x_scalar_ = 0;
  bool x_is_scalar_ = false;
};

template <typename Root>
double FrobeniusNorm(int64_t n, const Root* a) {
  double sum = 0;
  for (int64_t i = 0; i < n * n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(a[i]);
  return std::sqrt(sum);
}

template <typename Root>
double LargestRowSum(int64_t n, const Root* a) {
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += std::fabs(static_cast<double>(a[i * n + j]));
    largest = std::max(largest, sum);
  }
  return largest;
}

template <typename Root>
double BoundEigenvalues(const RootSpec& spec, int64_t n, const Root* a, Root* square, Root* fourth) {
  blas::Syrk(false, n, n, Root{1}, a, n, Root{0}, square, n);
  Mirror(n, square);
  blas::Syrk(false, n, n, Root{1}, square, n, Root{0}, fourth, n);
  Mirror(n, fourth);
  return EigenvalueBound(spec, LargestRowSum(n, a), LargestRowSum(n, fourth));
}

template <typename Root>
void Iterate(const RootSpec& spec, int64_t p, Iteration<Root>* iteration, CoupledResult<Root>* result) {
  CoupledState state = StateAfter(spec, result->iterations, 0, result->error);
  while (state == CoupledState::kRunning) {
    if (spec.method == RootMethod::kHigherOrder) {
      iteration->SeriesFactor(spec.order, p);
    } else {
      iteration->NewtonFactor(p);
    }
    iteration->Advance(p);
    ++result->iterations;
    const double before = std::exchange(result->error, iteration->Error());
    state = StateAfter(spec, result->iterations, before, result->error);
  }
  result->converged = static_cast<int>(state);
}

}  // namespace

template <typename Root>
void MultiplyByPower(int64_t n, int64_t power, Root** t, Root** y, Root** spare) {
  for (int64_t bits = power;; bits >>= 1) {
    if ((bits & 1) != 0) {
      blas::SymmetricProduct(n, Root{1}, *t, *y, Root{0}, *spare);
      std::swap(*y, *spare);
    }
    if (bits == 1) return;
    blas::Syrk(false, n, n, Root{1}, *t, n, Root{0}, *spare, n);
    Mirror(n, *spare);
    std::swap(*t, *spare);
  }
}

template <typename Root>
CoupledResult<Root> NewtonRoot(const RootSpec& spec, int64_t n, int scale, const RootWorkspace<Root>& workspace) {
  const int64_t p = spec.numerator / spec.denominator;
  Iteration<Root> iteration(n, workspace);
  CoupledResult<Root> result;
  result.shift = NewtonShift(spec, scale);
  iteration.AddToDiagonal(iteration.y(), result.shift);
  iteration.Start(NewtonMultiple(p, FrobeniusNorm(n, iteration.y())), p);
  result.error = iteration.Error();
  Iterate(spec, p, &iteration, &result);
  return iteration.Finish(result);
}

template <typename Root>
CoupledResult<Root> HigherOrderRoot(const RootSpec& spec, int64_t n, int scale, const RootWorkspace<Root>& workspace) {
  const int64_t p = spec.numerator;
  Iteration<Root> iteration(n, workspace);
  CoupledResult<Root> result;
  const double bound = BoundEigenvalues(spec, n, iteration.y(), iteration.spare(), iteration.t());
  const CoupledStart start = StartHigherOrder(spec, scale, bound);
  result.shift = start.shift;
  iteration.AddToDiagonal(iteration.y(), start.shift);
  iteration.Start(start.z, p);
  iteration.NewtonFactor(p);
  iteration.Advance(p);
  result.iterations = 1;
  result.error = iteration.Error();
  Iterate(spec, p, &iteration, &result);
  return iteration.Finish(result);
}

template void MultiplyByPower<float>(int64_t, int64_t, float**, float**, float**);
template void MultiplyByPower<double>(int64_t, int64_t, double**, double**, double**);
template CoupledResult<float> NewtonRoot<float>(const RootSpec&, int64_t, int, const RootWorkspace<float>&);
template CoupledResult<double> NewtonRoot<double>(const RootSpec&, int64_t, int, const RootWorkspace<double>&);
template CoupledResult<float> HigherOrderRoot<float>(const RootSpec&, int64_t, int, const RootWorkspace<float>&);
template CoupledResult<double> HigherOrderRoot<double>(const RootSpec&, int64_t, int, const RootWorkspace<double>&);

}  // namespace shampoo
