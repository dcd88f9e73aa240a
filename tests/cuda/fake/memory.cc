// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/fake/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

// In builds with the address sanitizer, these macros make the sanitizer stop a kernel that accesses a byte outside of
// an allocation. In other builds, they do nothing.
#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(begin, bytes) (static_cast<void>(begin), static_cast<void>(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(begin, bytes) (static_cast<void>(begin), static_cast<void>(bytes))
#endif

namespace shampoo::cuda_fake {
namespace {

constexpr size_t kRegion = size_t{1} << 33;  // size of the address range of each device
constexpr size_t kPage = 4096;
// The protection of memory is changed in units of this size. The constructor asks for pages of this size, because
// changing the protection of a few large pages takes little time.
constexpr size_t kLargePage = size_t{2} << 20;
constexpr size_t kMapped = kRegion * Memory::kMaxDevices + kLargePage;
constexpr size_t kGuard = 256;       // minimum bytes of each guard; also the alignment of CUDA's allocations
constexpr size_t kKeep = 64 << 20;   // freed memory of a device is reused only while its freed memory has more bytes
constexpr uint16_t kUnset = 0xfff5;  // pattern of memory that was not written: NaN in formats of 16, 32 and 64 bits
constexpr uint16_t kFreed = 0xfff6;  // pattern of freed memory
constexpr uint16_t kGuardPattern = 0xfffe;

size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

// Fills memory with the pattern. `begin` must be an even address. A guard begins at the end of an allocation, so each
// allocation must have an even number of bytes.
void Fill(char* begin, char* end, uint16_t pattern) {
  uint64_t word = pattern;
  word |= word << 16;
  word |= word << 32;
  for (; begin < end; begin += sizeof word) {
    memcpy(begin, &word, std::min(sizeof word, static_cast<size_t>(end - begin)));
  }
}

// Returns the address of the first byte that differs from the pattern, or `end`.
const char* FindOther(const char* begin, const char* end, uint16_t pattern) {
  const auto byte = [&](const char* at) {
    return static_cast<char>((reinterpret_cast<uintptr_t>(at) & 1) == 0 ? pattern & 0xff : pattern >> 8);
  };
  if (end - begin > 2 && *begin == byte(begin) && begin[1] == byte(begin + 1) &&
      memcmp(begin, begin + 2, static_cast<size_t>(end - begin) - 2) == 0) {
    return end;
  }
  while (begin < end && *begin == byte(begin)) ++begin;
  return begin;
}

char* BlockOf(const Allocation& allocation) { return allocation.data - kGuard; }

void AllowBlock(const Allocation& allocation) {
  ASAN_UNPOISON_MEMORY_REGION(BlockOf(allocation), allocation.block_bytes);
}
void ForbidBlock(const Allocation& allocation) {
  ASAN_POISON_MEMORY_REGION(BlockOf(allocation), allocation.block_bytes);
}
void ForbidGuards(const Allocation& allocation) {
  ForbidBlock(allocation);
  ASAN_UNPOISON_MEMORY_REGION(allocation.data, allocation.bytes);
}

std::string Describe(const Allocation& allocation) {
  return std::to_string(allocation.bytes) + " bytes of " +
         (allocation.place == Place::kDevice ? "device " + std::to_string(allocation.device) : "pinned memory");
}

}  // namespace

Memory::Memory() {
  void* const mapped = mmap(nullptr, kMapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) abort();
  mapped_ = mapped;
  base_ = static_cast<char*>(mapped);
  base_ += RoundUp(reinterpret_cast<uintptr_t>(base_), kLargePage) - reinterpret_cast<uintptr_t>(base_);
  (void)madvise(base_, kRegion * kMaxDevices, MADV_HUGEPAGE);
}

Memory::~Memory() {
  for (const auto& [address, allocation] : allocations_) {
    if (allocation.place == Place::kPinned) munmap(allocation.data - kPage, allocation.block_bytes);
  }
  for (size_t device = 0; device < kMaxDevices; ++device) {
    ASAN_UNPOISON_MEMORY_REGION(base_ + kRegion * device, used_[device]);  // the process may reuse these addresses
  }
  munmap(mapped_, kMapped);
}

void Memory::Protect(int device, bool open) {
  if (open_[device] == open) return;
  open_[device] = open;
  if (used_[device] == 0) return;
  char* const begin = base_ + kRegion * static_cast<size_t>(device);
  if (mprotect(begin, RoundUp(used_[device], kLargePage), open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) abort();
}

void Memory::Open(int device) {
  for (int other = 0; other < kMaxDevices; ++other) Protect(other, other == device);
}

void Memory::OpenAll() {
  for (int device = 0; device < kMaxDevices; ++device) Protect(device, true);
}

void Memory::Close() {
  if (protect_) Open(-1);
}

char* Memory::TakeBlock(int device, size_t block_bytes, size_t* taken_bytes) {
  std::deque<Allocation>& freed = freed_[device];
  if (freed_bytes_[device] > kKeep) {
    const auto fits = std::find_if(freed.begin(), freed.end(), [&](const Allocation& block) {
      return block.block_bytes >= block_bytes && block.block_bytes <= 2 * block_bytes;
    });
    if (fits != freed.end()) {
      const Allocation block = *fits;
      CheckFreed(block);
      AllowBlock(block);
      freed_bytes_[device] -= block.block_bytes;
      freed.erase(fits);
      *taken_bytes = block.block_bytes;
      return BlockOf(block);
    }
  }
  if (used_[device] + block_bytes > kRegion) return nullptr;
  // Protect() does nothing if the memory is already open. Closing first makes the second Protect() open the new bytes,
  // too.
  Protect(device, false);
  char* const block = base_ + kRegion * static_cast<size_t>(device) + used_[device];
  used_[device] += block_bytes;
  Protect(device, true);
  *taken_bytes = block_bytes;
  return block;
}

void* Memory::AllocateDevice(int device, size_t bytes, bool pooled) {
  size_t taken = 0;
  char* const block = TakeBlock(device, RoundUp(bytes, kGuard) + 2 * kGuard, &taken);
  if (block == nullptr) return nullptr;
  Protect(device, true);
  char* const data = block + kGuard;
  Fill(block, data, kGuardPattern);
  Fill(data, data + bytes, kUnset);
  Fill(data + bytes, block + taken, kGuardPattern);
  if (protect_) Protect(device, false);
  const Allocation made{data, bytes, taken, device, Place::kDevice, !pooled, pooled, false};
  ForbidGuards(made);
  allocations_[reinterpret_cast<uintptr_t>(data)] = made;
  live_bytes_[device] += bytes;
  return data;
}

void* Memory::AllocatePinned(int device, size_t bytes) {
  const size_t block_bytes = RoundUp(bytes + kGuard, kPage) + 2 * kPage;
  void* const block = mmap(nullptr, block_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return nullptr;
  char* const data = static_cast<char*>(block) + kPage;
  if (mprotect(data, block_bytes - 2 * kPage, PROT_READ | PROT_WRITE) != 0) abort();
  Fill(data, data + bytes, kUnset);
  Fill(data + bytes, data + block_bytes - 2 * kPage, kGuardPattern);
  allocations_[reinterpret_cast<uintptr_t>(data)] = {data,           bytes, block_bytes, device,
                                                     Place::kPinned, true,  false,       false};
  return data;
}

void Memory::Begin(void* data) {
  Allocation* const allocation = Find(data);
  if (allocation == nullptr) return;
  allocation->live = true;
  Fill(allocation->data, allocation->data + allocation->bytes, kUnset);
}

void Memory::Free(void* data) {
  const auto found = allocations_.find(reinterpret_cast<uintptr_t>(data));
  if (found == allocations_.end()) return;
  const Allocation allocation = found->second;
  allocations_.erase(found);
  if (allocation.place == Place::kPinned) {
    CheckGuard(allocation, "when this memory was freed");
    munmap(allocation.data - kPage, allocation.block_bytes);
    return;
  }
  const int device = allocation.device;
  const bool was_open = open_[device];
  Protect(device, true);
  CheckGuard(allocation, "when this memory was freed");
  AllowBlock(allocation);
  Fill(BlockOf(allocation), BlockOf(allocation) + allocation.block_bytes, kFreed);
  ForbidBlock(allocation);
  Protect(device, was_open);
  live_bytes_[device] -= allocation.bytes;
  freed_bytes_[device] += allocation.block_bytes;
  freed_[device].push_back(allocation);
}

Allocation* Memory::Find(const void* address) {
  const auto number = reinterpret_cast<uintptr_t>(address);
  auto after = allocations_.upper_bound(number);
  if (after == allocations_.begin()) return nullptr;
  Allocation& before = (--after)->second;
  return number < after->first + std::max<size_t>(before.bytes, 1) ? &before : nullptr;
}

Place Memory::PlaceOf(const void* address) {
  const auto number = reinterpret_cast<uintptr_t>(address);
  const auto base = reinterpret_cast<uintptr_t>(base_);
  if (number >= base && number < base + kRegion * kMaxDevices) return Place::kDevice;
  return Find(address) != nullptr ? Place::kPinned : Place::kUnknown;
}

bool Memory::Accessible(int device, const void* address, size_t bytes, std::string* why) {
  if (bytes == 0) return true;
  const Allocation* const allocation = Find(address);
  if (allocation == nullptr) {
    *why = "there is no device memory at " + std::to_string(reinterpret_cast<uintptr_t>(address));
    return false;
  }
  const auto offset = static_cast<size_t>(static_cast<const char*>(address) - allocation->data);
  if (bytes > allocation->bytes - offset) {
    *why = std::to_string(bytes) + " bytes from byte " + std::to_string(offset) + " on do not fit in " +
           Describe(*allocation);
    return false;
  }
  if (!allocation->live) {
    *why = "the stream has not yet reached the allocation of these " + Describe(*allocation);
    return false;
  }
  if (allocation->place == Place::kDevice && allocation->device != device) {
    *why = Describe(*allocation) + " are accessed from device " + std::to_string(device);
    return false;
  }
  return true;
}

void Memory::CheckGuard(const Allocation& allocation, const char* when) {
  const bool pinned = allocation.place == Place::kPinned;
  if (!pinned) AllowBlock(allocation);
  const char* const data_end = allocation.data + allocation.bytes;
  const char* const end =
      pinned ? allocation.data - kPage + allocation.block_bytes - kPage : BlockOf(allocation) + allocation.block_bytes;
  const char* const after = FindOther(data_end, end, kGuardPattern);
  if (after != end) {
    problems_.push_back("a write " + std::to_string(after - data_end) + " bytes after the end of " +
                        Describe(allocation) + ", found " + when);
  }
  if (pinned) return;  // the page before pinned memory is inaccessible
  const char* const before = FindOther(BlockOf(allocation), allocation.data, kGuardPattern);
  if (before != allocation.data) {
    problems_.push_back("a write " + std::to_string(allocation.data - before) + " bytes before " +
                        Describe(allocation) + ", found " + when);
  }
  ForbidGuards(allocation);
}

void Memory::CheckFreed(const Allocation& freed) {
  const bool was_open = open_[freed.device];
  Protect(freed.device, true);
  const char* const end = BlockOf(freed) + freed.block_bytes;
  AllowBlock(freed);
  const char* const other = FindOther(BlockOf(freed), end, kFreed);
  if (other != end) {
    problems_.push_back("written after the free of " + Describe(freed) + ", at byte " +
                        std::to_string(other - freed.data));
    Fill(BlockOf(freed), BlockOf(freed) + freed.block_bytes, kFreed);  // report the write only once
  }
  ForbidBlock(freed);
  Protect(freed.device, was_open);
}

void Memory::CheckGuards() {
  for (const auto& [address, allocation] : allocations_) {
    if (allocation.place == Place::kDevice) Protect(allocation.device, true);
    CheckGuard(allocation, "now");
  }
  for (const std::deque<Allocation>& freed : freed_) {
    for (const Allocation& block : freed) CheckFreed(block);
  }
  Close();
}

}  // namespace shampoo::cuda_fake
