// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tests/cuda/fake/control.h"
#include "tests/cuda/tools/device_model.h"

// Helpers for tests that repeat a training run while the fake device runs its streams in different orders.
namespace shampoo_test {

// An order in which the fake device runs its streams.
struct Order {
  int order;  // a value of the enum fake_cuda_order
  uint64_t seed;
  int progress;                            // argument of fake_cuda_progress(), which tests call after each step
  int solver = FAKE_CUDA_SOLVER_ENQUEUES;  // a value of the enum fake_cuda_solver
};

inline const std::vector<Order> kOrders = {{FAKE_CUDA_OLDEST_FIRST, 0, 0},
                                           {FAKE_CUDA_YOUNGEST_FIRST, 0, 0},
                                           {FAKE_CUDA_AS_LATE_AS_POSSIBLE, 0, 0},
                                           {FAKE_CUDA_YOUNGEST_FIRST, 0, 20},
                                           {FAKE_CUDA_RANDOM, 1, 0},
                                           {FAKE_CUDA_RANDOM, 2, 7},
                                           {FAKE_CUDA_RANDOM, 3, 40},
                                           {FAKE_CUDA_RANDOM, 4, 0, FAKE_CUDA_SOLVER_WAITS}};

// The call of CUDA that the fake skips: call number `nth` of `function` in step `step`. If nth is 0, the fake skips no
// call.
struct Skipped {
  const char* function = nullptr;
  int step = 0;
  int64_t nth = 0;
};

// Makes the fake skip the call that `skipped` describes. Unless `calls` is nullptr, also stores in *calls the number
// of calls of skipped.function in step skipped.step.
class SkipCall {
 public:
  SkipCall(const Skipped& skipped, int64_t* calls) : skipped_(skipped), calls_(calls) {}
  void Before(int step) const {
    if (step == skipped_.step && skipped_.nth > 0) fake_cuda_skip(skipped_.function, skipped_.nth);
    fake_cuda_mark();
  }
  void After(int step) const {
    if (step == skipped_.step && calls_ != nullptr) *calls_ = fake_cuda_calls(skipped_.function);
  }

 private:
  Skipped skipped_;
  int64_t* calls_;
};

// Calls train(SkipCall(skipped, calls)) while the fake device runs its streams in `order`. Returns the result of
// train(), or an empty vector if the fake has detected a problem. train() returns an empty vector if a step fails.
// `calls` may be nullptr; otherwise it receives the number of calls of skipped.function in step skipped.step.
template <typename Train>
std::vector<char> RunInOrder(const Order& order, const Skipped& skipped, int64_t* calls, const Train& train) {
  fake_cuda_reset();
  fake_cuda_set_protection(0);
  fake_cuda_set_order(order.order, order.seed);
  fake_cuda_set_solver(order.solver);
  std::vector<char> result = train(SkipCall(skipped, calls));
  if (skipped.nth == 0) {
    CHECK(std::string(fake_cuda_problems()) == "");
    CHECK(std::string(fake_cuda_leaks()) == "");
  }
  if (*fake_cuda_problems() != '\0') result.clear();
  return result;
}

// Checks that each call of a function in a step is needed: if the call is skipped, the result of
// run(order, skipped, calls) changes in at least one order of the streams.
template <typename Run>
void CheckThatEachCallIsNeeded(const char* function, int step, const Run& run) {
  int64_t calls = 0;
  const std::vector<char> expected = run(kOrders[0], Skipped{function, step, 0}, &calls);
  REQUIRE(calls > 0);
  for (int64_t nth = 1; nth <= calls; ++nth) {
    CAPTURE(nth);
    bool noticed = false;
    for (const Order& order : kOrders) {
      noticed = noticed || run(order, Skipped{function, step, nth}, nullptr) != expected;
    }
    CHECK_MESSAGE(noticed, function << ": call " << nth << " in step " << step << " is not needed");
  }
  fake_cuda_reset();
}

}  // namespace shampoo_test
