// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace shampoo::cuda_fake {

enum class Place { kUnknown, kDevice, kPinned };

struct Allocation {
  char* data;
  size_t bytes;
  size_t block_bytes;  // bytes of the allocation and its guards
  int device;
  Place place;
  bool live;     // whether work may use the memory: pooled memory becomes live when the stream reaches the allocation
  bool pooled;   // the memory is from the stream-ordered pool of its device
  bool leaving;  // the host has called a function that frees the memory, even if the stream has not reached that call
};

// Allocates device memory and pinned host memory. The CPU can access device memory only while it runs work of the
// device. Freed memory, memory that was not written yet, and the guards around allocations contain fixed patterns. All
// patterns are NaN in all floating-point formats, and negative as integers.
class Memory {
 public:
  Memory();
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  static constexpr int kMaxDevices = 8;

  // The Allocate functions return nullptr if no memory is left. Work may use pooled memory only after Begin().
  void* AllocateDevice(int device, size_t bytes, bool pooled);
  void* AllocatePinned(int device, size_t bytes);
  void Begin(void* data);
  void Free(void* data);

  // Returns the allocation that contains the byte at the address, or nullptr.
  Allocation* Find(const void* address);
  Place PlaceOf(const void* address);
  // Returns whether work of the device may access these bytes. If not, writes the reason to *why.
  bool Accessible(int device, const void* address, size_t bytes, std::string* why);

  // Open() makes the memory of this device accessible on the CPU, and the memory of all other devices inaccessible.
  // OpenAll() makes the memory of all devices accessible, and Close() makes it inaccessible.
  void Open(int device);
  void OpenAll();
  void Close();
  // If `protect` is false, Close() has no effect, and new device memory is accessible.
  void SetProtect(bool protect) { protect_ = protect; }

  void CheckGuards();  // records writes to guards and to freed memory as problems
  std::vector<std::string>& problems() { return problems_; }
  const std::map<uintptr_t, Allocation>& allocations() const { return allocations_; }
  size_t live_bytes(int device) const { return live_bytes_[device]; }

 private:
  void Protect(int device, bool open);
  char* TakeBlock(int device, size_t block_bytes, size_t* taken_bytes);
  void CheckGuard(const Allocation& allocation, const char* when);
  void CheckFreed(const Allocation& freed);

  void* mapped_ = nullptr;
  char* base_ = nullptr;
  bool protect_ = true;
  size_t used_[kMaxDevices] = {};
  size_t live_bytes_[kMaxDevices] = {};
  bool open_[kMaxDevices] = {};
  std::map<uintptr_t, Allocation> allocations_;
  std::deque<Allocation> freed_[kMaxDevices];
  size_t freed_bytes_[kMaxDevices] = {};
  std::vector<std::string> problems_;
};

}  // namespace shampoo::cuda_fake
