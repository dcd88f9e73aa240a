// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/base/memory.h"

#include <cstdlib>

#include "core/base/huge_pages.h"
#include "core/base/round_up.h"

namespace shampoo {
namespace {
constexpr int64_t kAlignment = 256;
constexpr int32_t kCpu = 1;

void* AllocateHere(size_t bytes) {
  // aligned_alloc requires a size that is a multiple of the alignment.
  if (bytes < 2 * kHugePage)
    return std::aligned_alloc(kAlignment, static_cast<size_t>(RoundUp(static_cast<int64_t>(bytes), kAlignment)));
  void* memory = nullptr;
  if (posix_memalign(&memory, kHugePage, bytes) != 0) return nullptr;
  AdviseHugePages(memory, bytes);
  return memory;
}
}  // namespace

Status Allocation::Create(const HostAllocator& allocator, int64_t bytes, const char* what, Allocation* out) {
  Allocation made;
  if (bytes == 0) {
    *out = std::move(made);
    return {};
  }
  const auto size = static_cast<size_t>(bytes);
  const bool own = allocator.allocate == nullptr;
  void* memory =
      own ? AllocateHere(size) : allocator.allocate(allocator.user, size, size_t{kAlignment}, kCpu, 0, nullptr);
  if (memory == nullptr) {
    return NoMemory("allocating ", bytes, " bytes of ", what, own ? "" : " with your shampoo_allocator",
                    " failed: use a smaller max_preconditioner_dim, narrower state dtypes or fewer threads; "
                    "shampoo_plan_bytes reports the required size in advance");
  }
  made.data_ = static_cast<char*>(memory);
  made.bytes_ = bytes;
  made.allocator_ = allocator;
  if (reinterpret_cast<uintptr_t>(memory) % uint64_t{kAlignment} != 0) {
    return Invalid("your shampoo_allocator returned memory that is not aligned: expected an alignment of ", kAlignment,
                   " bytes");
  }
  *out = std::move(made);
  return {};
}

Allocation::~Allocation() {
  if (data_ == nullptr) return;
  if (allocator_.allocate == nullptr) {
    std::free(data_);
  } else {
    allocator_.deallocate(allocator_.user, data_, static_cast<size_t>(bytes_), kCpu, 0, nullptr);
  }
}

}  // namespace shampoo
