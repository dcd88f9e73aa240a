// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace shampoo::golden {

// Where parameters and gradients of a replay lie. Every failure is a std::runtime_error.
class Device {
 public:
  virtual ~Device() = default;
  virtual int32_t type() const = 0;  // SHAMPOO_CUDA
  virtual void* Allocate(size_t bytes) = 0;
  virtual void Free(void* memory) = 0;
  // Both return when the copy is done, and come after all work of steps.
  virtual void CopyTo(void* device, const void* host, size_t bytes) = 0;
  virtual void CopyFrom(void* host, const void* device, size_t bytes) = 0;
  virtual void* stream() const = 0;
};

// By the name given on the command line: defined by the source that a program is linked with. Throws where it has none.
Device& DeviceNamed(const char* name);

}  // namespace shampoo::golden
