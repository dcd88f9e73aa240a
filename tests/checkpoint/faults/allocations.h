// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace shampoo_test {

// Which allocations of a thread fail. operator new is defined in allocations.cc, for the library, too.
struct AllocationFault {
  int64_t first = 0;       // the number of the first that fails, from 1
  int64_t count = 1;       // so many fail one after another
  size_t least_bytes = 0;  // smaller ones neither count nor fail
};

// While it lives, allocations of the thread that made it are counted, and fail as they should.
class AllocationWatch {
 public:
  explicit AllocationWatch(const AllocationFault& fault);
  ~AllocationWatch();
  AllocationWatch(const AllocationWatch&) = delete;
  AllocationWatch& operator=(const AllocationWatch&) = delete;

  int64_t calls() const;
  bool has_failed() const;
};

// Allocations of all threads that have not been given back.
int64_t LiveAllocations();

}  // namespace shampoo_test
