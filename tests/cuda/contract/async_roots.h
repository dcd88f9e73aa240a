// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/cuda/tools/stage.h"

// Helpers for tests of async roots (key root_async), which the device or the host computes while steps continue.
namespace shampoo_test {

// Returns the specification of a model with async roots. Roots are due at steps 5, 10 and 15. The roots of step 5 are
// used at once, the roots of step 10 from step 13 on, and the roots of step 15 from step 18 on.
inline ModelSpec AsyncRootsSpec(const Keys& more = {}) {
  return FiveShapes(Keys("precondition_frequency=5 root_async=3 beta2=0.9") + more);
}

// Like AsyncRootsSpec(), but the host computes the roots, and the model has one more parameter. Its factor matrix
// of size 130 is stored as a triangle, because the size is at least kPackedFrom.
inline ModelSpec HostRootsSpec(const Keys& more = {}) {
  ModelSpec spec = AsyncRootsSpec(Keys("root_device=host") + more);
  spec.params.push_back({{130, 3}, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F64});
  return spec;
}

// Trains for 19 steps, and returns the bits of the model. In steps 10 to 12 and in steps 15 to 17, the eigensolvers of
// the fake CUDA run in `mode`, a value of the enum fake_cuda_solver.
inline std::vector<char> TrainWithSolver(const ModelSpec& spec, int order, int mode = FAKE_CUDA_SOLVER_ENQUEUES) {
  const StageWithStream stream(order);
  Model model(spec, stream);
  for (uint64_t t = 1; t <= 19; ++t) {
    if (t == 10 || t == 15) fake_cuda_set_solver(mode);
    // Steps 13 and 18 use the roots, and would wait forever for a solver that is held.
    if (t == 13 || t == 18) fake_cuda_set_solver(FAKE_CUDA_SOLVER_ENQUEUES);
    model.Step(t);
    if (t == 10 && mode == FAKE_CUDA_SOLVER_IS_HELD) fake_cuda_wait_for_held_call();
  }
  return BitsOf(model);
}

// Lets eigensolvers that are held (FAKE_CUDA_SOLVER_IS_HELD) continue after 100 ms.
class DelayedRelease {
 public:
  DelayedRelease() {
    thread_ = std::thread([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      released_ = true;
      fake_cuda_set_solver(FAKE_CUDA_SOLVER_ENQUEUES);
    });
  }
  ~DelayedRelease() { thread_.join(); }
  DelayedRelease(const DelayedRelease&) = delete;
  DelayedRelease& operator=(const DelayedRelease&) = delete;
  bool released() const { return released_; }

 private:
  std::atomic<bool> released_ = false;
  std::thread thread_;
};

// Calls train(n, &bits) with n = 0, 1, 2 and so on, until train() returns false for an n above 0. Checks that all calls
// of train() store the same bits, and that train() returned true more than `least` times. train() trains a model and
// stores the bits of the model. Unless n is 0, train() makes the nth call of CUDA fail. It returns whether a call of
// CUDA has failed: false if n is 0 or if there are fewer than n calls.
template <typename Train>
void CheckThatFailuresChangeNothing(int64_t least, const Train& train) {
  std::vector<char> expected;
  train(0, &expected);
  int64_t failures = 0;
  for (std::vector<char> bits; train(failures + 1, &bits); ++failures) {
    CAPTURE(failures);
    CHECK(bits == expected);
  }
  CHECK(failures > least);
}

// Returns the CUDA error that a test injects into call n of CUDA.
inline int ErrorOfCall(int64_t n) { return n % 2 == 0 ? cudaErrorMemoryAllocation : cudaErrorUnknown; }
// Returns the status of a step that reports ErrorOfCall(n).
inline shampoo_status StatusOfCall(int64_t n) { return n % 2 == 0 ? SHAMPOO_E_NOMEM : SHAMPOO_E_DEVICE; }

}  // namespace shampoo_test
