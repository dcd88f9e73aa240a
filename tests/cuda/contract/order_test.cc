// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests that a step reads the results of earlier work in the caller's stream, and that later work reads the results of
// the step. The device may run the work of different streams in any order.
#include <algorithm>

#include "tests/cuda/contract/orders.h"
#include "tests/cuda/contract/training.h"

namespace shampoo_test {
namespace {

// The preset of the tests sets refresh_growth to 0. With precondition_frequency=2, roots are therefore due at steps 2,
// 4 and 6. Step 2 uses its roots immediately, because they are the first. With root_async=1, the roots of step 4 are
// used from step 5 on, and the roots of step 6 from step 7 on.
constexpr int kStepsInOrder = 4;
constexpr int kAsyncSteps = 7;
ModelSpec AsyncSpec(const Keys& more = {}) { return FiveShapes(Keys("root_async=1") + more); }

// The stream in which the steps are enqueued. kInTurns: two streams alternate.
enum class Where { kOwnStream, kBlockingStream, kLegacyStream, kInTurns };

std::vector<char> Run(const ModelSpec& spec, const Order& order, Where where, const Skipped& skipped = {},
                      int64_t* calls = nullptr) {
  const bool is_async = std::find(spec.keys.begin(), spec.keys.end(), AsyncSpec().keys.back()) != spec.keys.end();
  const int steps = is_async ? kAsyncSteps : kStepsInOrder;
  return RunInOrder(order, skipped, calls, [&](const SkipCall& skip) {
    const TestStream own(where == Where::kBlockingStream ? cudaStreamDefault : cudaStreamNonBlocking);
    const TestStream other;
    Training training(spec, where == Where::kLegacyStream ? cudaStream_t{nullptr} : cudaStream_t{own}, steps);
    for (int t = 1; t <= steps; ++t) {
      if (where == Where::kInTurns) training.MoveTo(t % 2 == 0 ? other : own);
      skip.Before(t);
      if (training.Step(t) != SHAMPOO_OK) return std::vector<char>();
      // If the fake skips a CUDA call of step 5, it is possible that step 6 does not start to compute roots.
      const bool has_job = t == 4 || (t == 6 && skipped.step != 5);
      if (is_async && has_job) fake_cuda_wait_for_jobs(1);
      skip.After(t);
      fake_cuda_progress(order.progress);
    }
    return training.Result();
  });
}

TEST_CASE("results do not depend on the order in which the device runs its streams") {
  for (const ModelSpec& spec : {FiveShapes(), FiveShapes("status_lag=0"), FiveShapes("root_method=newton"),
                                FiveShapes("root_method=higher_order"), AsyncSpec(), AsyncSpec("root_method=newton")}) {
    const std::vector<char> expected = Run(spec, kOrders[0], Where::kOwnStream);
    for (const Where where : {Where::kOwnStream, Where::kBlockingStream, Where::kLegacyStream, Where::kInTurns}) {
      for (const Order& order : kOrders) {
        INFO("order ", order.order, ", seed ", order.seed);
        CHECK(Run(spec, order, where) == expected);
      }
    }
  }
  fake_cuda_reset();
}

void CheckThatEachIsNeeded(const char* function, int step, const ModelSpec& spec = FiveShapes()) {
  INFO(std::string(function), " of step ", step);
  CheckThatEachCallIsNeeded(function, step, [&](const Order& order, const Skipped& skipped, int64_t* calls) {
    return Run(spec, order, Where::kOwnStream, skipped, calls);
  });
}

TEST_CASE("a step needs each of its calls of cudaStreamWaitEvent and cudaEventRecord" * NeedsFake()) {
  for (const char* function : {"cudaStreamWaitEvent", "cudaEventRecord"}) {
    for (const int step : {1, 2, 3}) CheckThatEachIsNeeded(function, step);
    for (const int step : {4, 5}) CheckThatEachIsNeeded(function, step, AsyncSpec());
  }
}

}  // namespace
}  // namespace shampoo_test
