// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace shampoo_test {

// Reference for the whole step of one matrix parameter in one block: plain loops in float64 and a Jacobi eigensolver.
// It shares no code with the library.
struct DenseReference {
  int m, n;
  double lr = 0.1, beta1 = 0.9, beta2 = 1, epsilon = 1e-6, momentum = 0, weight_decay = 0;
  bool nesterov = false, coupled = false, bias_correction = true;
  int frequency = 1, start = 1;
  double root = 4, multiplier = 1;
  std::string grafting = "none";
  double graft_beta2 = 1, graft_epsilon = 1e-8;

  int t = 0;
  std::vector<double> left, right, left_inverse, right_inverse, e, v, mom;

  DenseReference(int rows, int columns) : m(rows), n(columns) {
    left.assign(static_cast<size_t>(m * m), 0);
    right.assign(static_cast<size_t>(n * n), 0);
    left_inverse = Identity(m);
    right_inverse = Identity(n);
    e.assign(static_cast<size_t>(m * n), 0);
    v = mom = e;
  }

  static std::vector<double> Identity(int d) {
    std::vector<double> x(static_cast<size_t>(d * d), 0);
    for (int i = 0; i < d; ++i) x[static_cast<size_t>(i * d + i)] = 1;
    return x;
  }

  // Cyclic Jacobi: makes a diagonal and accumulates the rotations in q, whose columns are the eigenvectors.
  static void Jacobi(int d, std::vector<double>* a, std::vector<double>* q) {
    auto at = [d](std::vector<double>* x, int i, int j) -> double& { return (*x)[static_cast<size_t>(i * d + j)]; };
    *q = Identity(d);
    for (int sweep = 0; sweep < 60; ++sweep) {
      for (int i = 0; i < d; ++i) {
        for (int j = i + 1; j < d; ++j) {
          if (at(a, i, j) == 0) continue;
          const double theta = 0.5 * std::atan2(2 * at(a, i, j), at(a, j, j) - at(a, i, i));
          const double c = std::cos(theta), s = std::sin(theta);
          for (int k = 0; k < d; ++k) {
            const double x = at(a, k, i), y = at(a, k, j);
            at(a, k, i) = c * x - s * y;
            at(a, k, j) = s * x + c * y;
            const double qx = at(q, k, i), qy = at(q, k, j);
            at(q, k, i) = c * qx - s * qy;
            at(q, k, j) = s * qx + c * qy;
          }
          for (int k = 0; k < d; ++k) {
            const double x = at(a, i, k), y = at(a, j, k);
            at(a, i, k) = c * x - s * y;
            at(a, j, k) = s * x + c * y;
          }
        }
      }
    }
  }

  std::vector<double> InverseRoot(int d, std::vector<double> a) const {
    std::vector<double> q;
    Jacobi(d, &a, &q);
    double least = 0;
    for (int i = 0; i < d; ++i) least = std::min(least, a[static_cast<size_t>(i * d + i)]);
    std::vector<double> x(static_cast<size_t>(d * d), 0);
    for (int k = 0; k < d; ++k) {
      const double power = std::pow(a[static_cast<size_t>(k * d + k)] - least + epsilon, -multiplier / root);
      for (int i = 0; i < d; ++i) {
        for (int j = 0; j < d; ++j) {
          x[static_cast<size_t>(i * d + j)] +=
              q[static_cast<size_t>(i * d + k)] * power * q[static_cast<size_t>(j * d + k)];
        }
      }
    }
    return x;
  }

  void Step(std::vector<double> g, std::vector<double>* w) {
    ++t;
    const auto size = static_cast<size_t>(m * n);
    if (coupled) {
      for (size_t i = 0; i < size; ++i) g[i] += weight_decay * (*w)[i];
    }
    const double add = beta2 == 1 ? 1 : 1 - beta2;
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < m; ++j) {
        double sum = 0;
        for (int k = 0; k < n; ++k) sum += g[static_cast<size_t>(i * n + k)] * g[static_cast<size_t>(j * n + k)];
        left[static_cast<size_t>(i * m + j)] = beta2 * left[static_cast<size_t>(i * m + j)] + add * sum;
      }
    }
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) {
        double sum = 0;
        for (int k = 0; k < m; ++k) sum += g[static_cast<size_t>(k * n + i)] * g[static_cast<size_t>(k * n + j)];
        right[static_cast<size_t>(i * n + j)] = beta2 * right[static_cast<size_t>(i * n + j)] + add * sum;
      }
    }
    const double graft_add = graft_beta2 == 1 ? 1 : 1 - graft_beta2;
    for (size_t i = 0; i < size; ++i) v[i] = graft_beta2 * v[i] + graft_add * g[i] * g[i];
    if (t == start || (t > start && t % frequency == 0)) {
      const double c = bias_correction && beta2 < 1 ? 1 - std::pow(beta2, t) : 1;
      std::vector<double> a = left, b = right;
      for (double& x : a) x /= c;
      for (double& x : b) x /= c;
      left_inverse = InverseRoot(m, a);
      right_inverse = InverseRoot(n, b);
    }
    std::vector<double> h = g;
    if (beta1 != 0) {
      for (size_t i = 0; i < size; ++i) {
        e[i] = beta1 * e[i] + (1 - beta1) * g[i];
        h[i] = e[i] / (bias_correction ? 1 - std::pow(beta1, t) : 1);
      }
    }
    std::vector<double> d = h;
    if (grafting != "none" && grafting != "sgd") {
      const double c = grafting == "adam" && graft_beta2 < 1 ? 1 - std::pow(graft_beta2, t) : 1;
      for (size_t i = 0; i < size; ++i) d[i] = h[i] / (std::sqrt(v[i] / c) + graft_epsilon);
    }
    std::vector<double> p(size, 0);
    if (t >= start) {
      for (int i = 0; i < m; ++i) {
        for (int j = 0; j < n; ++j) {
          for (int k = 0; k < m; ++k) {
            for (int l = 0; l < n; ++l) {
              p[static_cast<size_t>(i * n + j)] += left_inverse[static_cast<size_t>(i * m + k)] *
                                                   h[static_cast<size_t>(k * n + l)] *
                                                   right_inverse[static_cast<size_t>(l * n + j)];
            }
          }
        }
      }
      if (grafting != "none") {
        double np = 0, nd = 0;
        for (size_t i = 0; i < size; ++i) np += p[i] * p[i], nd += d[i] * d[i];
        for (double& x : p) x *= std::sqrt(nd) / (std::sqrt(np) + 1e-16);
      }
    } else {
      p = grafting == "none" ? h : d;
    }
    for (size_t i = 0; i < size; ++i) {
      if (!coupled) p[i] += weight_decay * (*w)[i];
      if (momentum != 0) {
        mom[i] = momentum * mom[i] + p[i];
        p[i] = nesterov ? p[i] + momentum * mom[i] : mom[i];
      }
      (*w)[i] -= lr * p[i];
    }
  }
};

}  // namespace shampoo_test
