// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/network.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace shampoo::golden {
namespace {

// Computes y += a x. This loop takes nearly all the time of a training case. A compiler can vectorize the loop without
// changing the order of any sum.
void AddScaled(size_t n, double a, const double* x, double* y) {
  for (size_t i = 0; i < n; ++i) y[i] += a * x[i];
}

// Returns y = W x + b for each row x.
std::vector<double> Forward(size_t rows, size_t in, size_t out, const double* w, const double* b,
                            std::span<const double> x) {
  std::vector<double> transposed(in * out);
  for (size_t o = 0; o < out; ++o) {
    for (size_t i = 0; i < in; ++i) transposed[i * out + o] = w[o * in + i];
  }
  std::vector<double> y(rows * out);
  for (size_t r = 0; r < rows; ++r) {
    double* row = &y[r * out];
    std::copy(b, b + out, row);
    for (size_t i = 0; i < in; ++i) AddScaled(out, x[r * in + i], &transposed[i * out], row);
  }
  return y;
}

// Returns the mean loss of the outputs y of the last layer. Overwrites y with the gradient of the mean loss.
double CrossEntropy(size_t classes, std::span<const uint8_t> labels, std::vector<double>& y) {
  const auto count = static_cast<double>(labels.size());
  double loss = 0.0;
  for (size_t r = 0; r < labels.size(); ++r) {
    double* row = &y[r * classes];
    const double label_output = row[labels[r]];
    const double largest = *std::max_element(row, row + classes);
    double sum = 0.0;
    for (size_t c = 0; c < classes; ++c) sum += row[c] = std::exp(row[c] - largest);
    loss += std::log(sum) + largest - label_output;
    for (size_t c = 0; c < classes; ++c) row[c] /= sum * count;
    row[labels[r]] -= 1.0 / count;
  }
  return loss / count;
}

}  // namespace

Network::Network(const std::vector<std::vector<int64_t>>& shapes) {
  if (shapes.empty() || shapes.size() % 2 != 0)
    throw std::runtime_error("the network's shapes are not W1 b1 W2 b2 ...");
  for (size_t p = 0; p < shapes.size(); p += 2) {
    const std::vector<int64_t>& w = shapes[p];
    const bool matrix = w.size() == 2 && w[0] > 0 && w[1] > 0;
    if (!matrix || shapes[p + 1] != std::vector<int64_t>{w[0]} ||
        (!widths_.empty() && static_cast<size_t>(w[1]) != widths_.back())) {
      throw std::runtime_error("parameter " + std::to_string(p) + " and the next one do not form a layer");
    }
    if (widths_.empty()) widths_.push_back(static_cast<size_t>(w[1]));
    widths_.push_back(static_cast<size_t>(w[0]));
  }
}

double Network::LossAndGradients(std::span<const double* const> params, std::span<const double> x,
                                 std::span<const uint8_t> labels, std::span<std::vector<double>> gradients) const {
  const size_t rows = labels.size();
  const size_t layers = widths_.size() - 1;
  // inputs[k] is the input of layer k. The last element is the output of the last layer.
  std::vector<std::vector<double>> inputs = {{x.begin(), x.end()}};
  for (size_t k = 0; k < layers; ++k) {
    inputs.push_back(Forward(rows, widths_[k], widths_[k + 1], params[2 * k], params[2 * k + 1], inputs[k]));
    if (k + 1 == layers) break;
    for (double& value : inputs.back()) value = std::tanh(value);
  }
  std::vector<double> delta = std::move(inputs.back());
  const double loss = CrossEntropy(Classes(), labels, delta);

  for (size_t k = layers; k-- > 0;) {
    const size_t in = widths_[k];
    const size_t out = widths_[k + 1];
    std::vector<double>& w_gradient = gradients[2 * k];
    std::vector<double>& b_gradient = gradients[2 * k + 1];
    w_gradient.assign(out * in, 0.0);
    b_gradient.assign(out, 0.0);
    std::vector<double> below(k == 0 ? 0 : rows * in, 0.0);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t o = 0; o < out; ++o) {
        const double d = delta[r * out + o];
        b_gradient[o] += d;
        AddScaled(in, d, &inputs[k][r * in], &w_gradient[o * in]);
        if (k > 0) AddScaled(in, d, params[2 * k] + o * in, &below[r * in]);
      }
    }
    // The derivative of tanh is 1 - tanh^2.
    for (size_t i = 0; i < below.size(); ++i) below[i] *= 1.0 - inputs[k][i] * inputs[k][i];
    delta = std::move(below);
  }
  return loss;
}

}  // namespace shampoo::golden
