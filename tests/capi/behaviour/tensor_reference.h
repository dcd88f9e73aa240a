// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "tests/capi/behaviour/host.h"

namespace shampoo_test {

inline std::vector<double> IdentityMatrix(int d) {
  std::vector<double> x(static_cast<size_t>(d * d), 0);
  for (int i = 0; i < d; ++i) x[static_cast<size_t>(i * d + i)] = 1;
  return x;
}

// Diagonalizes the matrix `a` by cyclic Jacobi rotations. Returns their product, whose columns are the eigenvectors.
inline std::vector<double> Diagonalize(int d, std::vector<double>* a) {
  std::vector<double> q = IdentityMatrix(d);
  auto at = [d](std::vector<double>* x, int i, int j) -> double& { return (*x)[static_cast<size_t>(i * d + j)]; };
  for (int sweep = 0; sweep < 60; ++sweep) {
    for (int i = 0; i < d; ++i) {
      for (int j = i + 1; j < d; ++j) {
        if (at(a, i, j) == 0) continue;
        const double theta = 0.5 * std::atan2(2 * at(a, i, j), at(a, j, j) - at(a, i, i));
        const double c = std::cos(theta), s = std::sin(theta);
        const auto rotate = [&](double* x, double* y) {
          const double turned = c * *x - s * *y;
          *y = s * *x + c * *y;
          *x = turned;
        };
        for (int k = 0; k < d; ++k) {
          rotate(&at(a, k, i), &at(a, k, j));
          rotate(&at(&q, k, i), &at(&q, k, j));
        }
        for (int k = 0; k < d; ++k) rotate(&at(a, i, k), &at(a, j, k));
      }
    }
  }
  return q;
}

// Returns (a + epsilon I)^(-exponent). If the smallest eigenvalue is negative, it is first subtracted from all
// eigenvalues.
inline std::vector<double> InversePower(int d, std::vector<double> a, double epsilon, double exponent) {
  const std::vector<double> q = Diagonalize(d, &a);
  double least = 0;
  for (int i = 0; i < d; ++i) least = std::min(least, a[static_cast<size_t>(i * d + i)]);
  std::vector<double> x(static_cast<size_t>(d * d), 0);
  for (int k = 0; k < d; ++k) {
    const double power = std::pow(a[static_cast<size_t>(k * d + k)] - least + epsilon, -exponent);
    for (int i = 0; i < d; ++i) {
      for (int j = 0; j < d; ++j) {
        x[static_cast<size_t>(i * d + j)] +=
            q[static_cast<size_t>(i * d + k)] * power * q[static_cast<size_t>(j * d + k)];
      }
    }
  }
  return x;
}

// A reference for the steps of method `shampoo` for one block of any order. It computes the formulas element by
// element, and shares no code with the library.
struct TensorReference {
  std::vector<int> shape;
  double lr = 0.1, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-4, momentum = 0.5, weight_decay = 0.01, scale = 1;
  // Inverse roots have the exponent -multiplier / root. If `root` is 0, twice the order is used.
  double graft_beta2 = 0.9, graft_epsilon = 1e-8, multiplier = 1, root = 0;
  bool nesterov = false, coupled = false, bias_correction = true;
  std::string grafting = "rmsprop";
  int frequency = 1, start = 1;
  // The first refresh is at start. Later refreshes are at multiples of frequency or, if `spread` is set, at
  // start + frequency, start + 2 frequency and so on.
  bool spread = false;
  int async = 0;  // steps from a refresh to the first use of its roots; the roots of the first refresh are used at once

  std::vector<double> e, v, m;
  std::vector<std::vector<double>> factor, inverse, next;  // next: the newest roots
  int next_from = 0;                                       // the step that first uses `next`

  explicit TensorReference(std::vector<int> dims) : shape(std::move(dims)) {
    e.assign(Size(), 0);
    v = m = e;
    for (const int d : shape) {
      factor.emplace_back(static_cast<size_t>(d * d), 0.0);
      inverse.push_back(IdentityMatrix(d));
    }
  }

  size_t Size() const {
    size_t size = 1;
    for (const int d : shape) size *= static_cast<size_t>(d);
    return size;
  }
  // Returns the distance, in elements, between neighbors along dim k.
  size_t Stride(size_t k) const {
    size_t stride = 1;
    for (size_t i = k + 1; i < shape.size(); ++i) stride *= static_cast<size_t>(shape[i]);
    return stride;
  }
  size_t Index(size_t at, size_t k) const { return at / Stride(k) % static_cast<size_t>(shape[k]); }

  // Returns the tensor whose element at index j of dim k is the sum over i of x(j, i) h(.., i, ..).
  std::vector<double> Contract(const std::vector<double>& h, size_t k, const std::vector<double>& x) const {
    const auto d = static_cast<size_t>(shape[k]);
    std::vector<double> result(h.size(), 0);
    for (size_t at = 0; at < h.size(); ++at) {
      const size_t j = Index(at, k);
      for (size_t i = 0; i < d; ++i) result[at] += x[j * d + i] * h[at - j * Stride(k) + i * Stride(k)];
    }
    return result;
  }

  // Returns the weight of a new term in a sum (if beta is 1) or in an average.
  static double WeightOf(double beta) { return beta == 1 ? 1 : 1 - beta; }

  // Makes step t of the group. The block may have missed earlier steps.
  void Step(int t, std::vector<double> g, std::vector<double>* w) {
    const auto correction = [t](bool corrects, double beta) {
      return corrects && beta < 1 ? 1 - std::pow(beta, t) : 1;
    };
    for (size_t i = 0; i < g.size(); ++i) g[i] = scale * g[i] + (coupled ? weight_decay * (*w)[i] : 0);
    const double used_root = root != 0 ? root : 2 * static_cast<double>(shape.size());
    for (size_t k = 0; k < shape.size(); ++k) {
      const auto d = static_cast<size_t>(shape[k]);
      for (double& x : factor[k]) x *= beta2;
      for (size_t at = 0; at < g.size(); ++at) {
        const size_t j = Index(at, k);
        for (size_t i = 0; i < d; ++i) {
          factor[k][i * d + j] += WeightOf(beta2) * g[at] * g[at - j * Stride(k) + i * Stride(k)];
        }
      }
      if (t == start || (t > start && (spread ? t - start : t) % frequency == 0)) {
        std::vector<double> a = factor[k];
        for (double& x : a) x /= correction(bias_correction, beta2);
        next.resize(shape.size());
        next[k] = InversePower(shape[k], a, epsilon, multiplier / used_root);
        next_from = t == start ? t : t + async;
      }
    }
    if (t == next_from) inverse = next;
    const bool scales = grafting != "none" && grafting != "sgd";
    std::vector<double> h = g;
    std::vector<double> d = g;
    double d_square = 0;
    for (size_t i = 0; i < g.size(); ++i) {
      v[i] = graft_beta2 * v[i] + WeightOf(graft_beta2) * g[i] * g[i];
      e[i] = beta1 * e[i] + (1 - beta1) * g[i];
      h[i] = e[i] / correction(bias_correction, beta1);
      d[i] = scales ? h[i] / (std::sqrt(v[i] / correction(grafting == "adam", graft_beta2)) + graft_epsilon) : h[i];
      d_square += d[i] * d[i];
    }
    std::vector<double> p = d;
    if (t >= start) {
      p = h;
      for (size_t k = 0; k < shape.size(); ++k) p = Contract(p, k, inverse[k]);
      double p_square = 0;
      for (const double x : p) p_square += x * x;
      if (grafting != "none") {
        for (double& x : p) x *= std::sqrt(d_square) / (std::sqrt(p_square) + 1e-16);
      }
    }
    for (size_t i = 0; i < p.size(); ++i) {
      if (!coupled) p[i] += weight_decay * (*w)[i];
      m[i] = momentum * m[i] + p[i];
      (*w)[i] -= lr * (nesterov ? p[i] + momentum * m[i] : m[i]);
    }
  }
};

inline std::string Text(double value) {
  char text[64];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}

// Returns the settings of the reference, except `root`, as keys of an optimizer.
inline Keys KeysOf(const TensorReference& r) {
  return {{"lr", Text(r.lr)},
          {"beta1", Text(r.beta1)},
          {"beta2", Text(r.beta2)},
          {"epsilon", Text(r.epsilon)},
          {"momentum", Text(r.momentum)},
          {"use_nesterov", r.nesterov ? "true" : "false"},
          {"weight_decay", Text(r.weight_decay)},
          {"weight_decay_type", r.coupled ? "coupled" : "decoupled"},
          {"use_bias_correction", r.bias_correction ? "true" : "false"},
          {"gradient_scale", Text(r.scale)},
          {"grafting", r.grafting},
          {"grafting_beta2", Text(r.graft_beta2)},
          {"grafting_epsilon", Text(r.graft_epsilon)},
          {"exponent_multiplier", Text(r.multiplier)},
          {"precondition_frequency", std::to_string(r.frequency)},
          {"start_preconditioning_step", std::to_string(r.start)},
          {"root_spread", r.spread ? "true" : "false"},
          {"root_async", std::to_string(r.async)},
          {"use_merge_dims", "false"}};
}

}  // namespace shampoo_test
