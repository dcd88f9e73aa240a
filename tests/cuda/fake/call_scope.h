// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shampoo::cuda_fake {

// While a CallScope exists, fake_cuda_in_call() returns 1 on the thread that created the CallScope.
class CallScope {
 public:
  CallScope();
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
};

}  // namespace shampoo::cuda_fake
