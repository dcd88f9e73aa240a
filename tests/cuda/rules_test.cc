// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Runs the cases of tests/core/rules_cases.h in a kernel. The cases apply the rules of core/rules: formulas that the
// CPU backend and the kernels share.
#include <cmath>

#include "core/backend/cuda/plugin/cta.h"
#include "tests/core/rules_cases.h"
#include "tests/cuda/roots_on_device.h"

namespace shampoo::cuda_test {
namespace {

template <typename Case>
struct RunCasesBody {
  const Case* cases;
  double* results;
  int64_t count;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    cta.ForEach(count, [&](int64_t i) { results[i] = cases[i].Run(); });
  }
};

struct SignsBody {
  double* signs;
  int64_t count;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    cta.ForEach(count, [&](int64_t i) { signs[i] = ProbeSigns::At(i); });
  }
};

template <typename Case>
std::vector<double> RunOnDevice(const Case* cases, size_t count) {
  const OnDevice<Case> on_device(std::vector<Case>(cases, cases + count));
  const OnDevice<double> results(std::vector<double>(count, 0.0));
  Check(Launch(nullptr, 1, RunCasesBody<Case>{on_device.data(), results.data(), static_cast<int64_t>(count)}));
  Check(cudaDeviceSynchronize());
  return results.Read();
}

// Returns whether `result` is `expected`, within a tolerance relative to |expected|.
bool IsClose(double result, double expected, double tolerance) {
  return IsAsExpected(result, expected) || std::fabs(result - expected) <= tolerance * std::fabs(expected);
}

TEST_CASE("the rules of core/rules return the expected numbers in a kernel and the same numbers on the host") {
  ForEachTable([](const char* name, const auto* cases, size_t count) {
    CAPTURE(std::string(name));
    // The rules in the table "traces" call pow. The last bits of its result may differ between a GPU and the host.
    const double tolerance = std::string(name) == "traces" ? 1e-15 : 0;
    const std::vector<double> results = RunOnDevice(cases, count);
    for (size_t i = 0; i < count; ++i) {
      CAPTURE(i);
      CHECK(IsClose(results[i], cases[i].expected, tolerance));
      CHECK(IsClose(results[i], cases[i].Run(), tolerance));
    }
  });
}

TEST_CASE("the pseudo-random signs that check computed roots are the same on the device and on the host") {
  constexpr int64_t kCount = 1000;
  const OnDevice<double> made(std::vector<double>(kCount, 0.0));
  Check(Launch(nullptr, 1, SignsBody{made.data(), kCount}));
  Check(cudaDeviceSynchronize());
  ProbeSigns signs;
  for (const double sign : made.Read()) CHECK(sign == signs.Next());
}

}  // namespace
}  // namespace shampoo::cuda_test
