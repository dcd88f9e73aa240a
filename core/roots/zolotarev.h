// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "core/base/kernels/kernels.h"

namespace shampoo {

// Zolotarev's rational approximation of x^(-1/2) for 1 <= x <= 2^q: the sum of weights[j] / (x + poles[j]) over j <
// count. Its relative error is at most kError. Source: Hale, Higham and Trefethen, Computing A^alpha, log(A), and
// related matrix functions by contour integrals (2008), method 3.
struct ZolotarevSum {
  static constexpr int kLargestCondition = 27;  // the largest q
  static constexpr int kMaxPoles = TridiagonalKernels::kMaxPoles;
  // Two thirds of the unit roundoff of float32.
  static constexpr double kError = 4e-8;

  int count = 0;
  std::array<double, kMaxPoles> poles{};
  std::array<double, kMaxPoles> weights{};

  // Returns the sum for q, which is 1 to kLargestCondition. Each sum is computed once and kept until the process exits.
  static const ZolotarevSum& ForCondition(int q);
};

}  // namespace shampoo
