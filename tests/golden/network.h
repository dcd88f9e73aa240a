// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace shampoo::golden {

// A perceptron in float64: layers y = W x + b, tanh between the layers, and the mean cross entropy as the loss.
// Parameters and gradients are lists W1 b1 W2 b2 ... Each W has the shape (outputs, inputs), row-major, and each b has
// the shape (outputs).
class Network {
 public:
  // shapes: the shapes of W1 b1 W2 b2 ... Throws std::runtime_error if the shapes do not form such a network.
  explicit Network(const std::vector<std::vector<int64_t>>& shapes);

  size_t Inputs() const { return widths_.front(); }
  size_t Classes() const { return widths_.back(); }

  // Returns the mean loss over the rows of x, and writes the gradient of parameter p to gradients[p]. x has
  // labels.size() rows of Inputs() numbers, and labels are below Classes(). Runs on one thread and sums in a fixed
  // order.
  double LossAndGradients(std::span<const double* const> params, std::span<const double> x,
                          std::span<const uint8_t> labels, std::span<std::vector<double>> gradients) const;

 private:
  std::vector<size_t> widths_;  // layer k has widths_[k] inputs and widths_[k + 1] outputs
};

}  // namespace shampoo::golden
