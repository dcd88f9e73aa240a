// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Functions and keys that the tests of methods soap and kl_shampoo share.
#pragma once

#include <algorithm>

#include "tests/capi/behaviour/host.h"

namespace shampoo_test {

using BasisVector = std::vector<double>;

inline const Keys kSoap = "method=soap lr=1";
inline const Keys kKlSoap = "method=soap factor_correction=kl lr=1";
inline const Keys kKlShampoo = "method=kl_shampoo lr=1";
inline const std::vector<Keys> kBasisMethods = {kSoap, kKlSoap, kKlShampoo};

// Sets the first parameter to 0, makes a step with `gradient`, and returns the direction of this step. The learning
// rate must be 1.
inline BasisVector DirectionOf(Host* host, const BasisVector& gradient) {
  Host::Tensors& tensor = host->tensors[0];
  tensor.w = Array(tensor.w.dtype(), tensor.w.size());
  tensor.g = ArrayOf(tensor.g.dtype(), gradient);
  host->Step();
  return Scaled(tensor.w.Values(), -1);
}

inline BasisVector RandomElements(size_t count, std::mt19937_64* random) {
  Array values(SHAMPOO_F64, count);
  values.Fill(*random);
  return values.Values();
}

// Makes `steps` steps of the first parameter, whose name must be w, with random gradients. Calls `after_change` after
// each step that changes the basis of dim 1. Returns the numbers of the steps that changed this basis, where the first
// step is 1.
template <typename AfterChange>
std::vector<int> BasisChanges(Host* host, int steps, AfterChange&& after_change) {
  std::mt19937_64 random(8);
  std::vector<int> changes;
  Array basis = host->Read("w/0/basis.1");
  for (int step = 1; step <= steps; ++step) {
    DirectionOf(host, RandomElements(host->tensors[0].g.size(), &random));
    if (host->Read("w/0/basis.1") == basis) continue;
    basis = host->Read("w/0/basis.1");
    changes.push_back(step);
    after_change();
  }
  return changes;
}

// Copies all states of `from` to `to`, which must have states of the same names, dtypes and shapes.
inline void CopyStates(const Host& from, Host* to) {
  for (const Host::Entry& entry : from.Entries()) to->Write(entry.info.key, from.Read(entry));
}

// Returns the largest magnitude of an element.
inline double LargestOf(const BasisVector& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

inline BasisVector DiagonalMatrix(const BasisVector& diagonal) {
  const size_t n = diagonal.size();
  BasisVector matrix(n * n);
  for (size_t i = 0; i < n; ++i) matrix[i * n + i] = diagonal[i];
  return matrix;
}

inline BasisVector DiagonalOf(const BasisVector& matrix, size_t n) {
  BasisVector diagonal(n);
  for (size_t i = 0; i < n; ++i) diagonal[i] = matrix[i * n + i];
  return diagonal;
}

// Returns `weight` times the contraction of a tensor with itself along all dims except k.
inline BasisVector GramOf(const BasisVector& tensor, const std::vector<size_t>& shape, size_t k, double weight) {
  const size_t n = shape[k];
  size_t after = 1;
  for (size_t i = k + 1; i < shape.size(); ++i) after *= shape[i];
  BasisVector gram(n * n);
  for (size_t at = 0; at < tensor.size(); ++at) {
    const size_t row = at / after % n;
    for (size_t j = 0; j < n; ++j) gram[row * n + j] += weight * tensor[at] * tensor[at + j * after - row * after];
  }
  return gram;
}

inline BasisVector SumOf(double a, const BasisVector& x, double b, const BasisVector& y) {
  BasisVector sum(x.size());
  for (size_t i = 0; i < x.size(); ++i) sum[i] = a * x[i] + b * y[i];
  return sum;
}

}  // namespace shampoo_test
