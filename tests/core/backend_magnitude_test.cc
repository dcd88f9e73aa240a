// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/backend/cpu/magnitude.h"
#include "core/base/convert.h"

namespace shampoo {
namespace {

TEST_CASE("LargestMagnitude finds the largest magnitude, infinity or NaN at any index in every floating-point dtype") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kF16, Dtype::kBf16}) {
    for (size_t n : {1, 2, 31, 100, 600}) {
      for (size_t place = 0; place < n; ++place) {
        std::vector<double> values(n, 0.5);
        std::vector<uint64_t> stored(n);
        auto largest_with = [&](double special) {
          values[place] = special;
          Narrow(values.data(), stored.data(), dtype, static_cast<int64_t>(n));
          return LargestMagnitude(stored.data(), dtype, static_cast<int64_t>(n));
        };
        CHECK(largest_with(-8.0) == 8.0);
        CHECK(largest_with(-infinity) == infinity);
        CHECK(std::isnan(largest_with(std::nan(""))));
      }
    }
  }
  CHECK(LargestMagnitude(nullptr, Dtype::kF32, 0) == 0);
}

// A 3 x 4 block, in the buffer of the parameter and in that of the gradient. In both buffers, the block starts at
// element 7, its rows are 10 elements apart, and all elements outside of the block are NaN.
struct Inspected {
  Param param;
  Block block;
  StepProgram program;
  std::vector<float> grad = std::vector<float>(100, std::numeric_limits<float>::quiet_NaN());
  std::vector<float> weight = std::vector<float>(100, std::numeric_limits<float>::quiet_NaN());
  Inspected() {
    block.shape = Shape::Of({int64_t{3}, int64_t{4}});
    block.stride = {10, 1};
    block.offset = 7;
    block.elements = 12;
    for (size_t i = 0; i < 12; ++i) {
      grad[7 + i / 4 * 10 + i % 4] = static_cast<float>(i);
      weight[7 + i / 4 * 10 + i % 4] = 1;
    }
  }
  GradientInspection Inspect() {
    const Buffers buffers{weight.data(), grad.data(), nullptr, nullptr};
    double sums[4];
    return InspectGradient({&param, &block, &buffers, &program, {}, nullptr}, sums);
  }
};

TEST_CASE(
    "after scaling and coupled weight decay, InspectGradient finds the largest magnitude and the largest squared norms "
    "of a row and of a column") {
  Inspected inspected;
  inspected.program.gradient_scale = -2;
  inspected.program.coupled_decay = 3;  // a gradient element with the value i becomes 3 - 2 i
  const GradientInspection seen = inspected.Inspect();
  CHECK(seen.element == 30);
  CHECK(seen.value == -19);
  CHECK(seen.slice_square[0] == 13 * 13 + 15 * 15 + 17 * 17 + 19 * 19);
  CHECK(seen.slice_square[1] == 3 * 3 + 11 * 11 + 19 * 19);
}

TEST_CASE("InspectGradient finds the first element that is not finite, and says whether the parameter is the cause") {
  Inspected inspected;
  inspected.grad[18] = -std::numeric_limits<float>::infinity();
  GradientInspection seen = inspected.Inspect();
  CHECK(seen.element == 18);
  CHECK(std::isinf(seen.value));
  CHECK_FALSE(seen.param_at_fault);
  inspected.program.coupled_decay = 1;
  inspected.weight[9] = std::nanf("");
  seen = inspected.Inspect();
  CHECK(seen.element == 9);
  CHECK(std::isnan(seen.value));
  CHECK(seen.param_at_fault);
}

}  // namespace
}  // namespace shampoo
