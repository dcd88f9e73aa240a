// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tests/cuda/tools/stage.h"

namespace shampoo_test {

// An allocator that uses cudaMalloc and records the sizes.
struct Sizes {
  std::vector<size_t> all;

  shampoo_allocator allocator() {
    shampoo_allocator made = SHAMPOO_ALLOCATOR_INIT;
    made.user = this;
    made.allocate = [](void* user, size_t bytes, size_t, int32_t, int32_t, void*) {
      static_cast<Sizes*>(user)->all.push_back(bytes);
      void* memory = nullptr;
      MustCuda(cudaMalloc(&memory, bytes));
      return memory;
    };
    made.deallocate = [](void*, void* memory, size_t, int32_t, int32_t, void*) { (void)cudaFree(memory); };
    return made;
  }
};

}  // namespace shampoo_test
