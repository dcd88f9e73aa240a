// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shampoo::cuda_fake {

// While an object exists, the thread that created it counts as inside of a call of CUDA; see fake_cuda_in_call().
class CallScope {
 public:
  CallScope();
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
};

}  // namespace shampoo::cuda_fake
