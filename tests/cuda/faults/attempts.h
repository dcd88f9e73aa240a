// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "tests/cuda/tools/stage.h"

namespace shampoo_test {

// An operation that is attempted while a call of CUDA fails.
struct Attempt {
  ModelSpec spec;
  int64_t steps_before = 0;
  std::function<shampoo_status(Model* model)> run;
  std::function<void(Model* model, bool failed)> afterwards = {};
};

// Returns whether the function that failed last is an eigensolver of cuSOLVER or the query of its workspace. Such a
// failure is no error, because another solver computes the roots.
bool HasFailedInEigensolver();

// Creates another optimizer with the model's plan and stream.
shampoo_status CreateAnother(Model* model, shampoo_optimizer** out);
// Returns an attempt to create another optimizer, which is destroyed afterwards.
Attempt AttemptToCreate(const ModelSpec& spec, shampoo_optimizer** made);

// The outcome of an attempt.
struct Outcome {
  bool failure_used = false;
  bool in_eigensolver = false;  // see HasFailedInEigensolver
  shampoo_status status = SHAMPOO_OK;
  std::string text;
};

// Runs the attempt on its own stage, which checks for leaks and for accesses to memory that is not allocated yet or
// already freed. fail() sets up the failure.
Outcome TryOnce(const Attempt& attempt, const std::function<void()>& fail);

// Runs the attempt with the failure of fail(n) for n = 1, 2, ... until an attempt makes too few calls for this failure.
// Each earlier attempt must fail with code(n) and an error message that contains `names` and the failed function,
// unless an eigensolver failed. Returns the number of failures.
int64_t FailEach(const Attempt& attempt, const std::function<void(int64_t n)>& fail,
                 const std::function<shampoo_status(int64_t n)>& code, const std::string& names);

// Runs FailEach for all calls of CUDA and its libraries. The failures are alternately out of memory and another error.
int64_t FailEachCall(const Attempt& attempt);

}  // namespace shampoo_test
