// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace shampoo_test {

// Specifies which allocations of a thread fail. allocations.cc replaces operator new, also for the library.
struct AllocationFault {
  int64_t first = 0;       // number of the first allocation that fails, counted from 1; by default, no allocation fails
  int64_t count = 1;       // how many consecutive allocations fail
  size_t least_bytes = 0;  // smaller allocations are not counted and do not fail
  // Returns whether the code that allocates now is excluded: its allocations are not counted and do not fail. If
  // is_excluded is nullptr, no code is excluded.
  bool (*is_excluded)() = nullptr;
};

// Counts the allocations of the thread that created this object. The allocations that `fault` specifies fail.
class AllocationWatch {
 public:
  explicit AllocationWatch(const AllocationFault& fault);
  ~AllocationWatch();
  AllocationWatch(const AllocationWatch&) = delete;
  AllocationWatch& operator=(const AllocationWatch&) = delete;

  int64_t calls() const;
  bool has_failed() const;
};

// Returns how many allocations, of all threads together, have not been freed.
int64_t LiveAllocations();

}  // namespace shampoo_test
