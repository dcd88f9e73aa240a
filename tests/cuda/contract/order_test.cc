// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A step reads the results of earlier work in the caller's stream, and later work reads the results of the step, in any
// order in which the device runs its streams.
#include <algorithm>

#include "tests/cuda/contract/training.h"

namespace shampoo_test {
namespace {

// With precondition_frequency 2, roots are due at steps 2 and 4. With root_async 1, those of step 4 are used from step
// 5 on, and those of step 6 from step 7 on.
constexpr int kStepsInOrder = 4;
constexpr int kAsyncSteps = 7;
ModelSpec AsyncSpec(const Keys& more = {}) { return FiveShapes(Keys{{"root_async", "1"}} + more); }

struct Order {
  int order;
  uint64_t seed;
  int progress;  // operations that the device runs at each query of the host
  int solver = FAKE_CUDA_SOLVER_ENQUEUES;
};

const std::vector<Order> kOrders = {{FAKE_CUDA_OLDEST_FIRST, 0, 0},
                                    {FAKE_CUDA_YOUNGEST_FIRST, 0, 0},
                                    {FAKE_CUDA_AS_LATE_AS_POSSIBLE, 0, 0},
                                    {FAKE_CUDA_YOUNGEST_FIRST, 0, 20},
                                    {FAKE_CUDA_RANDOM, 1, 0},
                                    {FAKE_CUDA_RANDOM, 2, 7},
                                    {FAKE_CUDA_RANDOM, 3, 40},
                                    {FAKE_CUDA_RANDOM, 4, 0, FAKE_CUDA_SOLVER_WAITS}};

// The call to skip: the nth call of a function in this step.
struct Skipped {
  const char* function = nullptr;
  int step = 0;
  int64_t nth = 0;
};

enum class Where { kOwnStream, kBlockingStream, kLegacyStream, kInTurns };

std::vector<char> Run(const ModelSpec& spec, const Order& order, Where where, const Skipped& skipped = {},
                      std::vector<int64_t>* calls = nullptr) {
  const bool is_async = std::find(spec.keys.begin(), spec.keys.end(), AsyncSpec().keys.back()) != spec.keys.end();
  const int steps = is_async ? kAsyncSteps : kStepsInOrder;
  fake_cuda_reset();
  fake_cuda_set_protection(0);
  fake_cuda_set_order(order.order, order.seed);
  fake_cuda_set_solver(order.solver);
  std::vector<char> result;
  {
    const TestStream own(where == Where::kBlockingStream ? cudaStreamDefault : cudaStreamNonBlocking);
    const TestStream other;
    Training training(spec, where == Where::kLegacyStream ? cudaStream_t{nullptr} : cudaStream_t{own}, steps);
    for (int t = 1; t <= steps; ++t) {
      if (where == Where::kInTurns) training.MoveTo(t % 2 == 0 ? other : own);
      if (t == skipped.step) fake_cuda_skip(skipped.function, skipped.nth);
      fake_cuda_mark();
      if (training.Step(t) != SHAMPOO_OK) return {};
      // Without a call of step 5, step 6 may have no job.
      const bool has_job = t == 4 || (t == 6 && skipped.step != 5);
      if (is_async && has_job) fake_cuda_wait_for_jobs(1);
      if (calls != nullptr) calls->push_back(fake_cuda_calls(skipped.function));
      fake_cuda_progress(order.progress);
    }
    result = training.Result();
  }
  if (skipped.function == nullptr) {
    CHECK(std::string(fake_cuda_problems()) == "");
    CHECK(std::string(fake_cuda_leaks()) == "");
  }
  if (*fake_cuda_problems() != '\0') result.clear();
  return result;
}

TEST_CASE("results do not depend on the order in which the device runs its streams") {
  for (const ModelSpec& spec :
       {FiveShapes(), FiveShapes({{"status_lag", "0"}}), FiveShapes({{"root_method", "newton"}}),
        FiveShapes({{"root_method", "higher_order"}}), AsyncSpec(), AsyncSpec({{"root_method", "newton"}})}) {
    const std::vector<char> expected = Run(spec, kOrders[0], Where::kOwnStream);
    for (const Where where : {Where::kOwnStream, Where::kBlockingStream, Where::kLegacyStream, Where::kInTurns}) {
      for (const Order& order : kOrders) {
        CAPTURE(order.order);
        CAPTURE(order.seed);
        CHECK(Run(spec, order, where) == expected);
      }
    }
  }
  fake_cuda_reset();
}

// Checks for each skipped call that some order of the streams changes a result.
void CheckThatEachIsNeeded(const char* function, int step, const ModelSpec& spec = FiveShapes()) {
  std::vector<int64_t> calls;
  const std::vector<char> expected = Run(spec, kOrders[0], Where::kOwnStream, {function, 0, 0}, &calls);
  const int64_t count = calls[static_cast<size_t>(step - 1)];
  REQUIRE(count > 0);
  for (int64_t nth = 1; nth <= count; ++nth) {
    CAPTURE(nth);
    bool noticed = false;
    for (const Order& order : kOrders) {
      noticed = noticed || Run(spec, order, Where::kOwnStream, {function, step, nth}) != expected;
    }
    CHECK_MESSAGE(noticed, function << " number " << nth << " of step " << step << " is not needed");
  }
  fake_cuda_reset();
}

TEST_CASE("every wait of a step is needed" * NeedsFake()) {
  for (const int step : {1, 2, 3}) {
    CAPTURE(step);
    CheckThatEachIsNeeded("cudaStreamWaitEvent", step);
  }
  for (const int step : {4, 5}) {
    CAPTURE(step);
    CheckThatEachIsNeeded("cudaStreamWaitEvent", step, AsyncSpec());
  }
}

TEST_CASE("every record of an event in a step is needed" * NeedsFake()) {
  for (const int step : {1, 2, 3}) {
    CAPTURE(step);
    CheckThatEachIsNeeded("cudaEventRecord", step);
  }
  for (const int step : {4, 5}) {
    CAPTURE(step);
    CheckThatEachIsNeeded("cudaEventRecord", step, AsyncSpec());
  }
}

}  // namespace
}  // namespace shampoo_test
