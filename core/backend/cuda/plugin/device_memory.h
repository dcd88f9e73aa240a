// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/base/memory.h"
#include "core/base/status.h"

namespace shampoo::cuda {

// Selects the thread-local capture mode, in which calls of this thread do not invalidate captures of other threads. The
// destructor restores the previous mode.
class CaptureModeScope {
 public:
  CaptureModeScope() : is_changed_(cudaThreadExchangeStreamCaptureMode(&before_) == cudaSuccess) {}
  ~CaptureModeScope() {
    if (is_changed_) (void)cudaThreadExchangeStreamCaptureMode(&before_);
  }
  CaptureModeScope(const CaptureModeScope&) = delete;
  CaptureModeScope& operator=(const CaptureModeScope&) = delete;

 private:
  cudaStreamCaptureMode before_ = cudaStreamCaptureModeThreadLocal;
  bool is_changed_;
};

// Makes a device the current device of this thread, and selects the capture mode of CaptureModeScope. The destructor
// restores the previous device and mode.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  Status status() const;

 private:
  CaptureModeScope mode_;
  int before_ = -1;                     // the device to restore; -1: none
  const char* call_ = "cudaGetDevice";  // the call that returned error_
  cudaError_t error_ = cudaSuccess;
};

// Device memory from the caller's allocator, or from CUDA. The object must be destroyed after all work that uses the
// memory has ended.
class DeviceMemory {
 public:
  enum class Access {
    // Memory that only its own device accesses. If CUDA allocates it, it is from a stream-ordered pool.
    kOwnDevice,
    // Memory that NCCL reads or writes. Other devices of the process access this memory directly. They can do so with
    // memory from cudaMalloc, but not with memory from a stream-ordered pool.
    kPeers,
  };
  struct Source {
    HostAllocator allocator;  // if its functions are nullptr, CUDA allocates the memory
    int device;
    cudaStream_t stream;  // memory of a pool or of the caller's allocator is allocated in the order of this stream
    // Pool memory is freed in the order of free_stream. This stream must outlive the DeviceMemory.
    cudaStream_t free_stream;
  };

  DeviceMemory() = default;
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // what: names the memory in error messages.
  Status Allocate(const Source& source, Access access, int64_t bytes, const char* what);
  char* data() const { return data_; }

 private:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
  Source source_{};
  Access access_ = Access::kOwnDevice;
};

// Pinned host memory that kernels can write. host() and device() return its addresses on the host and on the device.
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
