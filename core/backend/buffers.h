// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shampoo {

// The caller's buffers of one parameter.
struct Buffers {
  const void* param = nullptr;
  const void* grad = nullptr;
  void* out = nullptr;
  void* copy = nullptr;
};

}  // namespace shampoo
