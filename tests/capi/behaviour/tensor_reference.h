// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "tests/capi/behaviour/host.h"
#include "tests/capi/semantics/dense_reference.h"

namespace shampoo_test {

// Reference for the step of one dense block of any order: computed from the formulas, one element at a time.
struct TensorReference {
  std::vector<int> shape;
  double lr = 0.1, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-4, momentum = 0.5, weight_decay = 0.01, scale = 1;
  double graft_beta2 = 0.9, graft_epsilon = 1e-8, multiplier = 1, root = 0;  // root 0: twice the order
  bool rmsprop = true;                                                       // the grafting method, or none
  int frequency = 1, start = 1;
  bool spread = false;  // refreshes occur at the phase of `start`
  int async = 0;        // steps from a refresh to the first use of its roots, except for the first refresh

  std::vector<double> e, v, m;
  std::vector<std::vector<double>> factor, inverse, next;  // next: roots that are not in use yet
  int next_from = 0;                                       // the step that uses them first

  explicit TensorReference(std::vector<int> dims) : shape(std::move(dims)) {
    e.assign(Size(), 0);
    v = m = e;
    for (const int d : shape) {
      factor.emplace_back(static_cast<size_t>(d * d), 0.0);
      inverse.push_back(DenseReference::Identity(d));
    }
  }

  size_t Size() const {
    size_t size = 1;
    for (const int d : shape) size *= static_cast<size_t>(d);
    return size;
  }
  // Distance between neighbours along dim k.
  size_t Stride(size_t k) const {
    size_t stride = 1;
    for (size_t i = k + 1; i < shape.size(); ++i) stride *= static_cast<size_t>(shape[i]);
    return stride;
  }
  size_t Index(size_t at, size_t k) const { return at / Stride(k) % static_cast<size_t>(shape[k]); }

  // sum over i of x(j, i) h(.., i, ..)
  std::vector<double> Contract(const std::vector<double>& h, size_t k, const std::vector<double>& x) const {
    const auto d = static_cast<size_t>(shape[k]);
    std::vector<double> result(h.size(), 0);
    for (size_t at = 0; at < h.size(); ++at) {
      const size_t j = Index(at, k);
      for (size_t i = 0; i < d; ++i) result[at] += x[j * d + i] * h[at - j * Stride(k) + i * Stride(k)];
    }
    return result;
  }

  // Makes step t of the group. The block may have missed earlier steps.
  void Step(int t, std::vector<double> g, std::vector<double>* w) {
    for (double& x : g) x *= scale;
    DenseReference roots(1, 1);
    roots.epsilon = epsilon;
    roots.multiplier = multiplier;
    roots.root = root != 0 ? root : 2 * static_cast<double>(shape.size());
    for (size_t k = 0; k < shape.size(); ++k) {
      const auto d = static_cast<size_t>(shape[k]);
      for (double& x : factor[k]) x *= beta2;
      for (size_t at = 0; at < g.size(); ++at) {
        const size_t j = Index(at, k);
        for (size_t i = 0; i < d; ++i) {
          factor[k][i * d + j] += (1 - beta2) * g[at] * g[at - j * Stride(k) + i * Stride(k)];
        }
      }
      if (t == start || (t > start && (spread ? t - start : t) % frequency == 0)) {
        std::vector<double> a = factor[k];
        for (double& x : a) x /= 1 - std::pow(beta2, t);
        next.resize(shape.size());
        next[k] = roots.InverseRoot(shape[k], a);
        next_from = t == start ? t : t + async;
      }
    }
    if (t == next_from) inverse = next;
    std::vector<double> h = g;
    std::vector<double> d = g;
    double d_square = 0;
    for (size_t i = 0; i < g.size(); ++i) {
      v[i] = graft_beta2 * v[i] + (1 - graft_beta2) * g[i] * g[i];
      e[i] = beta1 * e[i] + (1 - beta1) * g[i];
      h[i] = e[i] / (1 - std::pow(beta1, t));
      d[i] = rmsprop ? h[i] / (std::sqrt(v[i]) + graft_epsilon) : h[i];
      d_square += d[i] * d[i];
    }
    std::vector<double> p = d;
    if (t >= start) {
      p = h;
      for (size_t k = 0; k < shape.size(); ++k) p = Contract(p, k, inverse[k]);
      double p_square = 0;
      for (const double x : p) p_square += x * x;
      if (rmsprop) {
        for (double& x : p) x *= std::sqrt(d_square) / (std::sqrt(p_square) + 1e-16);
      }
    }
    for (size_t i = 0; i < p.size(); ++i) {
      m[i] = momentum * m[i] + p[i] + weight_decay * (*w)[i];
      (*w)[i] -= lr * m[i];
    }
  }
};

inline std::string Text(double value) {
  char text[64];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}

// Returns the settings of the reference as keys of an optimizer.
inline Keys KeysOf(const TensorReference& r) {
  return {{"lr", Text(r.lr)},
          {"beta1", Text(r.beta1)},
          {"beta2", Text(r.beta2)},
          {"epsilon", Text(r.epsilon)},
          {"momentum", Text(r.momentum)},
          {"weight_decay", Text(r.weight_decay)},
          {"gradient_scale", Text(r.scale)},
          {"grafting", r.rmsprop ? "rmsprop" : "none"},
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
