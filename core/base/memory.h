// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/base/status.h"

namespace shampoo {

// The application's own allocator (shampoo_allocator of the public header). If `allocate` is nullptr, the application
// has none, and the library allocates memory itself.
struct HostAllocator {
  void* user = nullptr;
  void* (*allocate)(void* user, size_t bytes, size_t align, int32_t device_type, int32_t device_id,
                    void* stream) = nullptr;
  void (*deallocate)(void* user, void* ptr, size_t bytes, int32_t device_type, int32_t device_id,
                     void* stream) = nullptr;
};

// One allocation of host memory, aligned to 256 bytes and freed in the destructor.
class Allocation {
 public:
  Allocation() = default;
  Allocation(Allocation&& other) noexcept { *this = std::move(other); }
  Allocation& operator=(Allocation&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(allocator_, other.allocator_);
    return *this;
  }
  ~Allocation();

  // Allocates `bytes` bytes. what: names the memory in the error message, such as "state" or "workspace".
  static Status Create(const HostAllocator& allocator, int64_t bytes, const char* what, Allocation* out);

  char* data() const { return data_; }  // nullptr if nothing is allocated

 private:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
  HostAllocator allocator_;
};

}  // namespace shampoo
