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
  size_t block_bytes;  // with the guards around it
  int device;
  Place place;
  bool live;     // in the order of streams, which is behind that of calls
  bool leaving;  // a free was asked for
};

// Memory of the devices, which the host can touch only while work of a device runs, and pinned memory of the host.
// What is not the caller's is full of bits that are NaN in every format, and negative as an integer.
class Memory {
 public:
  Memory();
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  static constexpr int kMostDevices = 8;

  // nullptr: no memory is left. live: from now on, else from Begin on.
  void* AllocateDevice(int device, size_t bytes, bool live);
  void* AllocatePinned(int device, size_t bytes);
  void Begin(void* data);
  void Free(void* data);

  // What contains it; one past the end is part of nothing.
  Allocation* Find(const void* address);
  Place PlaceOf(const void* address);
  // Whether work of the device may touch these bytes; if not, why.
  bool Accessible(int device, const void* address, size_t bytes, std::string* why);

  // The memory of this device can be touched, that of others cannot.
  void Open(int device);
  void OpenAll();
  void Close();
  void SetProtect(bool protect) { protect_ = protect; }

  void CheckGuards();  // of all that is live or freed
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
  size_t used_[kMostDevices] = {};
  size_t live_bytes_[kMostDevices] = {};
  bool open_[kMostDevices] = {};
  std::map<uintptr_t, Allocation> allocations_;
  std::deque<Allocation> freed_[kMostDevices];
  size_t freed_bytes_[kMostDevices] = {};
  std::vector<std::string> problems_;
};

}  // namespace shampoo::cuda_fake
