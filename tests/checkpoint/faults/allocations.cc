// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/faults/allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace shampoo_test {
namespace {

// State of the AllocationWatch of this thread. operator new uses these variables, so reading and writing them must not
// allocate memory.
thread_local bool counting = false;
thread_local AllocationFault plan;
thread_local int64_t counted = 0;
thread_local bool failed = false;

std::atomic<int64_t> live{0};

void* Allocate(size_t bytes, size_t alignment) {
  if (counting && bytes >= plan.least_bytes && (plan.is_excluded == nullptr || !plan.is_excluded())) {
    ++counted;
    if (counted >= plan.first && counted - plan.first < plan.count) {
      failed = true;
      return nullptr;
    }
  }
  void* const memory = alignment > alignof(std::max_align_t)
                           ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
                           : std::malloc(bytes > 0 ? bytes : 1);
  if (memory != nullptr) ++live;
  return memory;
}

void* AllocateOrThrow(size_t bytes, size_t alignment) {
  void* const memory = Allocate(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void Free(void* memory) {
  if (memory != nullptr) --live;
  std::free(memory);
}

}  // namespace

AllocationWatch::AllocationWatch(const AllocationFault& fault) {
  plan = fault;
  counted = 0;
  failed = false;
  counting = true;
}

AllocationWatch::~AllocationWatch() { counting = false; }

int64_t AllocationWatch::calls() const { return counted; }

bool AllocationWatch::has_failed() const { return failed; }

int64_t LiveAllocations() { return live; }

}  // namespace shampoo_test

namespace {
constexpr size_t kPlain = alignof(std::max_align_t);
}

void* operator new(size_t bytes) { return shampoo_test::AllocateOrThrow(bytes, kPlain); }
void* operator new[](size_t bytes) { return shampoo_test::AllocateOrThrow(bytes, kPlain); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return shampoo_test::AllocateOrThrow(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return shampoo_test::AllocateOrThrow(bytes, static_cast<size_t>(alignment));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return shampoo_test::Allocate(bytes, kPlain); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return shampoo_test::Allocate(bytes, kPlain); }
void operator delete(void* memory) noexcept { shampoo_test::Free(memory); }
void operator delete[](void* memory) noexcept { shampoo_test::Free(memory); }
void operator delete(void* memory, size_t) noexcept { shampoo_test::Free(memory); }
void operator delete[](void* memory, size_t) noexcept { shampoo_test::Free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { shampoo_test::Free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { shampoo_test::Free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { shampoo_test::Free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { shampoo_test::Free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { shampoo_test::Free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { shampoo_test::Free(memory); }
