// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace shampoo::golden {

// The device that holds the parameters and gradients while a program replays a recorded case. The functions of a device
// throw std::runtime_error on failure.
class Device {
 public:
  virtual ~Device() = default;
  virtual int32_t type() const = 0;  // such as SHAMPOO_CUDA
  virtual void* Allocate(size_t bytes) = 0;
  virtual void Free(void* memory) = 0;
  // CopyTo() and CopyFrom() wait for earlier steps, copy, and return when the copy is complete.
  virtual void CopyTo(void* device, const void* host, size_t bytes) = 0;
  virtual void CopyFrom(void* host, const void* device, size_t bytes) = 0;
  virtual void* stream() const = 0;
};

// Returns the device that the option --device names. Throws if the program does not support this name. A program for
// CUDA ends with the exit code of a skipped test if the machine has no GPU. A program that replays cases only on
// the CPU links the definition in no_device.cc.
Device& DeviceNamed(const char* name);

}  // namespace shampoo::golden
