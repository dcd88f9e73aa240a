// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/cuda/tools/device_model.h"

namespace shampoo_test {

// A sequence of steps that runs on a device and on the CPU.
struct Course {
  ModelSpec spec = {};
  int64_t steps = 6;
  std::function<bool(int64_t t, size_t p)> has_gradient = {};  // empty: always true
  // Empty: the gradients of Model::FillGradients.
  std::function<std::vector<double>(int64_t t, size_t p, size_t elements)> gradient = {};
  std::function<void(int64_t t, Model* model)> before = {};  // called before each step, after its gradients are set
  // The largest difference that is allowed in each buffer and each state, relative to the largest value of that buffer
  // or state. 0: the tolerance depends on the dtypes.
  double tolerance = 0;
};

// Runs the course on the device and on the CPU. Returns a description of the differences that exceed the tolerance and
// of the counters that differ, or "" if there are none.
std::string Difference(const Course& course);

// Does the same for a method in eigenbases, with a tolerance of 1e-9. The signs of eigenvectors are arbitrary, so bases
// and filtered gradients are not compared. Second moments, eigenvalues and parameters do not depend on signs.
std::string DifferenceWithoutSigns(const Course& course);

// The results of a course.
struct Results {
  std::vector<std::string> names;  // of buffers and states
  std::vector<std::vector<double>> values;
  std::vector<double> counts;

  const std::vector<double>& Of(const std::string& name) const;
};
Results Run(const Course& course, int32_t device_type);

}  // namespace shampoo_test
