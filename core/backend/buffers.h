// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shampoo {

// The caller's buffers of one parameter.
struct Buffers {
  const void* param = nullptr;
  const void* grad = nullptr;  // nullptr: no gradient
  void* out = nullptr;         // the new parameter or, with Output::kUpdates, the update; may be equal to `param`
  void* copy = nullptr;        // the new parameter in another dtype; nullptr: no copy
};

}  // namespace shampoo
