// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/roots/probe.h"

#include <algorithm>
#include <cmath>

#include "core/base/convert.h"
#include "core/rules/eigenvalue.h"

namespace shampoo {

template <typename Root>
void FillSigns(int64_t n, Root* v) {
  ProbeSigns signs;
  for (int64_t i = 0; i < n; ++i) v[i] = static_cast<Root>(signs.Next());
}

template <typename Root>
double Distance(int64_t n, const Root* a, const Root* b) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return std::sqrt(sum / static_cast<double>(n));  // |v| is sqrt(n); see probe.h
}

template <typename Root>
void EigenProbe<Root>::BeforeSolve(const Root* a) {
  Root* const v = workspace_.Vector(1, n_);
  FillSigns(n_, v);
  blas::Symv(false, n_, a, n_, v, workspace_.Vector(2, n_));
}

template <typename Root>
bool EigenProbe<Root>::Fits(const Root* q, const Root* l) const {
  Root* const v = workspace_.Vector(1, n_);
  Root* const av = workspace_.Vector(2, n_);
  Root* const qv = workspace_.Vector(3, n_);
  Root* const result = workspace_.Work(n_);
  blas::Gemv(false, n_, q, v, qv);
  blas::Gemv(true, n_, q, qv, result);
  const double lost = Distance(n_, v, result);
  double largest = 0;
  bool rising = true;
  for (int64_t i = 0; i < n_; ++i) {
    qv[i] *= l[i];
    largest = std::max(largest, std::fabs(static_cast<double>(l[i])));
    rising = rising && (i == 0 || l[i - 1] <= l[i]);
  }
  blas::Gemv(true, n_, q, qv, result);
  const double error = Distance(n_, av, result);
  return rising && PassesProbe(n_, DtypeOf<Root>(), lost, error, largest);
}

template <typename Root>
double RootResidual(int64_t n, const Root* a, const Root* x, int64_t power, const RootWorkspace<Root>& workspace) {
  Root* const v = workspace.Vector(0, n);
  Root* from = workspace.Vector(1, n);
  Root* to = workspace.Vector(2, n);
  FillSigns(n, v);
  std::copy(v, v + n, from);
  const auto multiply = [&](const Root* matrix) {
    blas::Gemv(false, n, matrix, from, to);
    std::swap(from, to);
  };
  for (int64_t i = 0; i < power / 2; ++i) multiply(x);
  multiply(a);
  for (int64_t i = power / 2; i < power; ++i) multiply(x);
  return Distance(n, from, v);
}

template void FillSigns<float>(int64_t, float*);
template void FillSigns<double>(int64_t, double*);
template double Distance<float>(int64_t, const float*, const float*);
template double Distance<double>(int64_t, const double*, const double*);
template class EigenProbe<float>;
template class EigenProbe<double>;
template double RootResidual<float>(int64_t, const float*, const float*, int64_t, const RootWorkspace<float>&);
template double RootResidual<double>(int64_t, const double*, const double*, int64_t, const RootWorkspace<double>&);

}  // namespace shampoo
