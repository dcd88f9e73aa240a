// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tests/cuda/tools/device_ranks.h"

namespace shampoo_test {

// Provides an allocator that calls cudaMalloc(), and records the size in bytes of each allocation.
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

// Provides an allocator for each rank. The operator [] returns the Sizes of a rank.
class SizesOfRanks {
 public:
  explicit SizesOfRanks(const RankKind& kind)
      : what_(kind.gathers() && !kind.has_all_to_all ? "workspace.all_gather" : "workspace"),
        sizes_(static_cast<size_t>(kind.world())) {
    for (Sizes& of_rank : sizes_) allocators_.push_back(of_rank.allocator());
  }
  const shampoo_allocator* allocators() const { return allocators_.data(); }
  const Sizes& operator[](int rank) const { return sizes_[static_cast<size_t>(rank)]; }
  // Returns the bytes of workspace that the plan of the model predicts for a rank of the kind that was passed to the
  // constructor.
  size_t PlannedWorkspace(const Model& model) const { return PlannedBytes(model.plan.get(), what_); }

 private:
  const char* what_;
  std::vector<Sizes> sizes_;
  std::vector<shampoo_allocator> allocators_;
};

}  // namespace shampoo_test
