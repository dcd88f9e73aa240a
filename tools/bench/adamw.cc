// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/adamw.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

namespace bench {
namespace {

struct AdamwScalars {
  float lr, beta1, beta2, epsilon, decay;
  float correction1, correction2;  // 1 - beta1^t and 1 - beta2^t
};

void AdamwStep(const AdamwScalars& s, const float* __restrict g, float* __restrict w, float* __restrict m,
               float* __restrict v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    m[i] = s.beta1 * m[i] + (1 - s.beta1) * g[i];
    v[i] = s.beta2 * v[i] + (1 - s.beta2) * g[i] * g[i];
    const float direction = m[i] / s.correction1 / (std::sqrt(v[i] / s.correction2) + s.epsilon);
    w[i] -= s.lr * (direction + s.decay * w[i]);
  }
}

}  // namespace

double TimeAdamw(const Case& model, int runs) {
  using Clock = std::chrono::steady_clock;
  struct Buffers {
    std::vector<float> gradient, parameter, first_moment, second_moment;
  };
  std::vector<Buffers> tensors;
  for (const Tensor& tensor : model.tensors) {
    const auto n = static_cast<size_t>(Elements(tensor.shape));
    tensors.push_back({std::vector<float>(n, 0.01f), std::vector<float>(n, 0.1f), std::vector<float>(n, 0.0f),
                       std::vector<float>(n, 0.0f)});
  }
  double shortest = INFINITY;
  for (int run = 1; run <= runs; ++run) {
    const auto start = Clock::now();
    const auto t = static_cast<double>(run);
    const AdamwScalars scalars{1e-3f,
                               0.9f,
                               0.999f,
                               1e-8f,
                               0.01f,
                               static_cast<float>(1 - std::pow(0.9, t)),
                               static_cast<float>(1 - std::pow(0.999, t))};
    for (Buffers& b : tensors) {
      AdamwStep(scalars, b.gradient.data(), b.parameter.data(), b.first_moment.data(), b.second_moment.data(),
                static_cast<int64_t>(b.parameter.size()));
    }
    shortest = std::min(shortest, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return shortest;
}

}  // namespace bench
