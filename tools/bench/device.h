// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace bench {

// A device on which an optimizer makes its steps. If a function fails, the program ends.
class Device {
 public:
  virtual ~Device() = default;
  virtual int32_t type() const = 0;  // SHAMPOO_CPU or SHAMPOO_CUDA
  virtual void* stream() const = 0;  // the stream of all steps
  // Returns memory that contains only zeros.
  virtual void* Allocate(size_t bytes) = 0;
  virtual void Free(void* memory) = 0;
  virtual void CopyTo(void* device, const void* host, size_t bytes) = 0;
  // Waits for all work of the device.
  virtual void Wait() = 0;
  // Starts to time the work that the caller enqueues in the stream after this call.
  virtual void StartClock() = 0;
  // Waits for all work in the stream. Returns the seconds of the work that was enqueued after StartClock(). The time of
  // earlier work in the stream is not counted.
  virtual double StopClock() = 0;
};

// Returns the device that --device names, or nullptr for "cpu". plugin: the path of the backend. If plugin is "", the
// library searches for the backend. This function is defined in cuda_device.cc or, without CUDA, in no_device.cc.
std::unique_ptr<Device> MakeDevice(const std::string& name, const std::string& plugin);

}  // namespace bench
