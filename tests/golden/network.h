// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace shampoo::golden {

// A perceptron in f64: layers y = W x + b with tanh between them, and the mean cross entropy of the last as loss.
// Parameters and gradients are lists W1 b1 W2 b2 ...; W is (outputs, inputs), b (outputs), row-major.
class Network {
 public:
  // shapes: of W1 b1 W2 b2 ...; throws std::runtime_error where they do not make such a network.
  explicit Network(const std::vector<std::vector<int64_t>>& shapes);

  size_t Inputs() const { return widths_.front(); }
  size_t Classes() const { return widths_.back(); }

  // x: labels.size() rows of Inputs() numbers. Labels are below Classes(). Gradients (one per parameter, of its size)
  // are overwritten. Returns the mean loss over the rows. Single-threaded, and sums in one fixed order.
  double LossAndGradients(std::span<const double* const> params, std::span<const double> x,
                          std::span<const uint8_t> labels, std::span<std::vector<double>> gradients) const;

 private:
  std::vector<size_t> widths_;  // of the input and of each layer's output
};

}  // namespace shampoo::golden
