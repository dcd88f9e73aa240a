// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "tests/cuda/tools/stage.h"

namespace shampoo_test {

// An operation of a model. TryOnce() sets up a failure of a CUDA call, and then runs the operation.
struct Attempt {
  ModelSpec spec;
  int64_t steps_before = 0;                         // steps that the model makes before the operation
  std::function<shampoo_status(Model* model)> run;  // runs the operation
  // Called after run(), when no call fails any more. failed: run() has returned an error.
  std::function<void(Model* model, bool failed)> afterwards = {};
};

// Returns whether the last injected failure was in an eigensolver of cuSOLVER, or in the query of an eigensolver's
// workspace size. The library reports no error in this case, because another solver computes the roots.
bool HasFailedInEigensolver();

// Creates another optimizer with the model's plan and stream.
shampoo_status CreateAnother(Model* model, shampoo_optimizer** out);
// Returns an attempt that creates another optimizer in *made. The function `afterwards` of the attempt destroys *made.
Attempt AttemptToCreate(const ModelSpec& spec, shampoo_optimizer** made);

// The outcome of an attempt.
struct Outcome {
  bool failure_used = false;    // the failure that was set up has occurred
  bool in_eigensolver = false;  // see HasFailedInEigensolver
  shampoo_status status = SHAMPOO_OK;
  std::string text;  // the last error message
};

// Runs the attempt on a new Stage, which checks for leaks and for accesses to memory that is not allocated yet or
// already freed. fail() sets up the failure.
Outcome TryOnce(const Attempt& attempt, const std::function<void()>& fail);

// Runs the attempt for n = 1, 2, ... Before each run, fail(n) sets up a failure. The last run is the first in which the
// failure does not occur, because the run makes too few calls. This run must succeed. Each earlier run must fail with
// code(n) and an error message that contains `names` and the name of a CUDA function. If the failure was in an
// eigensolver (HasFailedInEigensolver), the run must succeed instead. Returns the number of failures.
int64_t FailEach(const Attempt& attempt, const std::function<void(int64_t n)>& fail,
                 const std::function<shampoo_status(int64_t n)>& code, const std::string& names);

// Calls FailEach() so that call number n of CUDA and its libraries fails. The error is cudaErrorMemoryAllocation if n
// is even, and cudaErrorLaunchFailure if n is odd.
int64_t FailEachCall(const Attempt& attempt);

}  // namespace shampoo_test
