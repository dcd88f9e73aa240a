// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shampoo {

// The caller's buffers of one parameter: the parameter, its gradient, the output, and an optional copy of the new
// parameter in another dtype.
struct Buffers {
  const void* param = nullptr;
  const void* grad = nullptr;
  void* out = nullptr;
  void* copy = nullptr;
};

}  // namespace shampoo
