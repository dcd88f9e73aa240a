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
  // Returns whether parameter p has a gradient in step t. If the function is empty, all parameters have gradients in
  // all steps.
  std::function<bool(int64_t t, size_t p)> has_gradient = {};
  // Returns the gradient of parameter p in step t. If the function is empty, Model::FillGradients() sets the
  // gradients.
  std::function<std::vector<double>(int64_t t, size_t p, size_t elements)> gradient = {};
  std::function<void(int64_t t, Model* model)> before = {};  // called after the gradients of step t are set
  // The largest difference that is allowed in each buffer and each state, relative to the largest value of that buffer
  // or state. 0: the tolerance depends on the dtypes.
  double tolerance = 0;
};

// Runs the course on the device and on the CPU. Returns a description of the differences that exceed the tolerance and
// of the counters that differ, or "" if there are none.
std::string Difference(const Course& course);

// Like Difference(), but for methods that use eigenbases, such as soap, and with a tolerance of 1e-9. The signs of
// eigenvectors are arbitrary, so bases and filtered gradients are not compared. Second moments, eigenvalues and
// parameters do not depend on signs.
std::string DifferenceWithoutSigns(const Course& course);

// The results of a course on one device.
struct Results {
  std::vector<std::string> names;  // of buffers and states
  std::vector<std::vector<double>> values;
  std::vector<double> counts;  // see kCounts in course.cc

  const std::vector<double>& Of(const std::string& name) const;
};
Results Run(const Course& course, int32_t device_type);

}  // namespace shampoo_test
