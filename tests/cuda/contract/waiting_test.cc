// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests that a step waits for the device only in the cases that docs/cuda.md lists, and that it neither copies to the
// host nor allocates memory.
#include "tests/cuda/tools/stage.h"

namespace shampoo_test {
namespace {

constexpr int kSteps = 7;  // with precondition_frequency=2, roots are due at steps 2, 4 and 6

// Returns whether step t computes roots by an iteration without a fixed number of products. Such a step waits for the
// device, because the host checks whether the iteration has converged.
bool Iterates(const std::string& method, int t) {
  return t % 2 == 0 && (method == "newton" || method == "higher_order");
}

TEST_CASE(
    "if the device keeps up then a step waits only in iterative root methods and neither copies to the "
    "host nor allocates" *
    NeedsFake()) {
  for (const Keys& keys : kRootMethods) {
    const std::string method = keys.Value("root_method");
    for (const Keys& lag : kLags) {
      INFO(method, ", ", lag);
      StagedModel model(FiveShapes(lag + keys), FAKE_CUDA_AS_LATE_AS_POSSIBLE);
      fake_cuda_set_query_progress(-1);  // the device keeps up: each query first runs the work that it asks about
      model.FillGradients(1);
      for (int t = 1; t <= kSteps; ++t) {
        CAPTURE(t);
        fake_cuda_mark();
        model.Step();
        CHECK((fake_cuda_count(FAKE_CUDA_SYNCHRONIZATIONS) > 0) == Iterates(method, t));
        CheckNoCopiesOrAllocations();
        CHECK(fake_cuda_count(FAKE_CUDA_PRODUCTS_WITHOUT_WORKSPACE) == 0);
        CHECK(fake_cuda_calls("cublasSetStream") + fake_cuda_calls("cusolverDnSetStream") == 0);
        CHECK(fake_cuda_count(FAKE_CUDA_PRODUCTS) > 0);
        // The tensor with three dims needs inverse sixth roots. root_method=cans cannot compute them, so the step
        // computes them as with root_method=eigen.
        const bool decomposes = t % 2 == 0 && (method == "eigen" || method == "cans");
        CHECK((fake_cuda_count(FAKE_CUDA_EIGENPROBLEMS) > 0) == decomposes);
        // With status_lag=1, a step queries once whether the work of the previous step is done. With status_lag=0, a
        // step queries once whether its own work is done.
        CHECK(fake_cuda_count(FAKE_CUDA_QUERIES) == (t == 1 && ReportsLate(lag) ? 0 : 1));
      }
      fake_cuda_mark();
      CHECK(model.Stat("steps") == kSteps - (ReportsLate(lag) ? 1 : 0));
      CHECK(fake_cuda_calls(nullptr) == 0);
    }
  }
}

TEST_CASE(
    "if the device lags then a step waits once for the previous step and otherwise only in iterative root methods" *
    NeedsFake()) {
  for (const Keys& keys : kRootMethods) {
    const std::string method = keys.Value("root_method");
    CAPTURE(method);
    StagedModel model(FiveShapes(keys), FAKE_CUDA_AS_LATE_AS_POSSIBLE);
    model.FillGradients(1);
    CHECK(fake_cuda_live(FAKE_CUDA_PENDING_OPERATIONS) == 0);
    int64_t enqueued = 0;
    for (int t = 1; t <= kSteps; ++t) {
      CAPTURE(t);
      fake_cuda_mark();
      model.Step();
      if (Iterates(method, t)) {
        CHECK(fake_cuda_count(FAKE_CUDA_SYNCHRONIZATIONS) > 1);
      } else {
        CHECK(fake_cuda_count(FAKE_CUDA_SYNCHRONIZATIONS) == (t == 1 ? 0 : 1));
      }
      CHECK(fake_cuda_calls("cudaEventSynchronize") == fake_cuda_count(FAKE_CUDA_SYNCHRONIZATIONS));
      CheckNoCopiesOrAllocations();
      // All work of step t - 1 is done. Unless step t computes roots by an iteration, the work of step t is still
      // pending, because the call did not wait for it.
      const int64_t pending = fake_cuda_live(FAKE_CUDA_PENDING_OPERATIONS);
      if (!Iterates(method, t)) CHECK(pending >= fake_cuda_count(FAKE_CUDA_LAUNCHES));
      // Odd steps compute no roots, so each of them enqueues the same number of operations.
      if (t == 3) enqueued = pending;
      if (t > 3 && t % 2 == 1) CHECK(pending == enqueued);
      CHECK(model.Stat("steps") == t - 1);
    }
  }
}

TEST_CASE("if the device lags and status_lag is 0 then the call of a step waits once for this step" * NeedsFake()) {
  StagedModel model(FiveShapes("status_lag=0"), FAKE_CUDA_AS_LATE_AS_POSSIBLE);
  model.FillGradients(1);
  for (int t = 1; t <= kSteps; ++t) {
    CAPTURE(t);
    fake_cuda_mark();
    model.Step();
    CHECK(fake_cuda_count(FAKE_CUDA_SYNCHRONIZATIONS) == 1);
    CHECK(fake_cuda_live(FAKE_CUDA_PENDING_OPERATIONS) == 0);
    CHECK(model.Stat("steps") == t);
  }
}

TEST_CASE("shampoo_optimizer_status waits for the device only if the caller requests it" * NeedsFake()) {
  StagedModel model(FiveShapes(), FAKE_CUDA_AS_LATE_AS_POSSIBLE);
  model.Step(1);
  fake_cuda_mark();
  Must(shampoo_optimizer_status(model.optimizer, 0, nullptr));
  CHECK(fake_cuda_count(FAKE_CUDA_SYNCHRONIZATIONS) == 0);
  CHECK(model.Stat("steps") == 0);
  model.MustSucceed();
  CHECK(fake_cuda_count(FAKE_CUDA_SYNCHRONIZATIONS) == 1);
  CHECK(model.Stat("steps") == 1);
}

}  // namespace
}  // namespace shampoo_test
