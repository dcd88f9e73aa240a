// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "tests/cuda/tools/stage.h"

namespace shampoo_test {

// What is tried while a call of CUDA fails.
struct Attempt {
  ModelSpec spec;
  int64_t steps_before = 0;
  std::function<shampoo_status(Model* model)> run;
  std::function<void(Model* model, bool failed)> afterwards = {};
};

// What came of it.
struct Outcome {
  bool failure_used = false;
  shampoo_status status = SHAMPOO_OK;
  std::string text;
};

// On a stage of its own, which sees that nothing is left and that no memory is touched too early or too late. fail()
// plans what is to go wrong.
Outcome TryOnce(const Attempt& attempt, const std::function<void()>& fail);

// For n from 1 on, until what fail(n) plans is not met any more, as the attempt has ended: at each n it must fail, with
// the code, and a text that names what has failed. Says how many there were.
int64_t FailEach(const Attempt& attempt, const std::function<void(int64_t n)>& fail,
                 const std::function<shampoo_status(int64_t n)>& code, const std::string& names);

// The same for all calls of CUDA and its libraries, in turn for want of memory and for another reason.
int64_t FailEachCall(const Attempt& attempt);

}  // namespace shampoo_test
