// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/base/memory.h"
#include "core/base/status.h"

namespace shampoo::cuda {

// Makes a device the current one of this thread, and the one before again at its end.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  Status status() const;

 private:
  int before_ = -1;
  cudaError_t error_ = cudaSuccess;
};

// Memory of a device, by the caller's allocator or in the order of a stream. It is given back after all work that uses
// it has ended.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // what: for the error text.
  Status Allocate(const HostAllocator& allocator, int device, int64_t bytes, const char* what, cudaStream_t stream);
  char* data() const { return data_; }

 private:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
  int device_ = 0;
  HostAllocator allocator_;
};

// Memory of the host that the device writes, too.
class MappedMemory {
 public:
  MappedMemory() = default;
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  Status Allocate(int64_t bytes);
  char* host() const { return host_; }
  char* device() const { return device_; }

 private:
  char* host_ = nullptr;
  char* device_ = nullptr;
};

}  // namespace shampoo::cuda
