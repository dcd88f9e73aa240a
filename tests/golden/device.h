// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace shampoo::golden {

// The device of the parameters and gradients of a replay. Every failure is a std::runtime_error.
class Device {
 public:
  virtual ~Device() = default;
  virtual int32_t type() const = 0;  // SHAMPOO_CUDA
  virtual void* Allocate(size_t bytes) = 0;
  virtual void Free(void* memory) = 0;
  // The copies wait for earlier steps, and return when they are complete.
  virtual void CopyTo(void* device, const void* host, size_t bytes) = 0;
  virtual void CopyFrom(void* host, const void* device, size_t bytes) = 0;
  virtual void* stream() const = 0;
};

// Returns the device with the name on the command line. Each program links its own definition. Throws if there is no
// such device.
Device& DeviceNamed(const char* name);

}  // namespace shampoo::golden
