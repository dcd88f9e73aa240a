// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace bench {

// A device on which an optimizer makes its steps. A failure ends the program.
class Device {
 public:
  virtual ~Device() = default;
  virtual int32_t type() const = 0;  // SHAMPOO_CUDA
  virtual void* stream() const = 0;  // the stream of all steps
  // Returns memory that contains only zeros.
  virtual void* Allocate(size_t bytes) = 0;
  virtual void Free(void* memory) = 0;
  virtual void CopyTo(void* device, const void* host, size_t bytes) = 0;
  // Waits for all work of the device.
  virtual void Wait() = 0;
  // Starts to measure the time of the work that is enqueued in the stream.
  virtual void StartClock() = 0;
  // Waits for the stream. Returns the seconds from the end of the work that was enqueued before StartClock() to the end
  // of all work.
  virtual double StopClock() = 0;
};

// Returns the device with the name on the command line, or nullptr for "cpu". plugin: the file of the backend; "": the
// library finds the file. cuda_device.cc defines the function, or no_device.cc in a build without CUDA.
std::unique_ptr<Device> MakeDevice(const std::string& name, const std::string& plugin);

}  // namespace bench
