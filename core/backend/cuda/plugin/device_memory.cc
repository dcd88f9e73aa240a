// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/device_memory.h"

#include <cstring>

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/base/text.h"

namespace shampoo::cuda {
namespace {

constexpr size_t kAlignment = 256;
constexpr int32_t kDeviceType = 2;  // SHAMPOO_CUDA

}  // namespace

DeviceScope::DeviceScope(int device) {
  error_ = cudaGetDevice(&before_);
  if (error_ != cudaSuccess) {
    before_ = -1;
    return;
  }
  if (before_ == device) {
    before_ = -1;
  } else {
    error_ = cudaSetDevice(device);
  }
}

DeviceScope::~DeviceScope() {
  if (before_ >= 0) (void)cudaSetDevice(before_);
}

Status DeviceScope::status() const { return StatusOf(error_, "cudaSetDevice"); }

Status DeviceMemory::Allocate(const HostAllocator& allocator, int device, int64_t bytes, const char* what,
                              cudaStream_t stream) {
  void* made = nullptr;
  if (allocator.allocate != nullptr) {
    made = allocator.allocate(allocator.user, static_cast<size_t>(bytes), kAlignment, kDeviceType, device, stream);
    if (made == nullptr) {
      return NoMemory(
          "the host's allocator returned NULL for ", bytes, " bytes of ", what, " on device ", device,
          "; query shampoo_plan_bytes beforehand, and use smaller blocks (max_preconditioner_dim) or narrower "
          "states");
    }
    if (reinterpret_cast<uintptr_t>(made) % kAlignment != 0) {
      allocator.deallocate(allocator.user, made, static_cast<size_t>(bytes), kDeviceType, device, stream);
      return Invalid("the host's allocator returned memory that is not aligned: expected an alignment of ", kAlignment,
                     " bytes");
    }
  } else {
    Status status = StatusOf(cudaMallocAsync(&made, static_cast<size_t>(bytes), stream), "cudaMallocAsync");
    if (!status.ok()) {
      return std::move(status).Within(Cat(bytes, " bytes of ", what, " on device ", device,
                                          " (query shampoo_plan_bytes beforehand, and use smaller blocks or narrower "
                                          "states)"));
    }
  }
  data_ = static_cast<char*>(made);
  bytes_ = bytes;
  device_ = device;
  allocator_ = allocator;
  return {};
}

DeviceMemory::~DeviceMemory() {
  if (data_ == nullptr) return;
  if (allocator_.deallocate != nullptr) {
    allocator_.deallocate(allocator_.user, data_, static_cast<size_t>(bytes_), kDeviceType, device_, nullptr);
  } else {
    (void)cudaFreeAsync(data_, nullptr);
  }
}

Status MappedMemory::Allocate(int64_t bytes) {
  void* made = nullptr;
  SHAMPOO_RETURN_IF_ERROR(
      StatusOf(cudaHostAlloc(&made, static_cast<size_t>(bytes), cudaHostAllocMapped), "cudaHostAlloc"));
  host_ = static_cast<char*>(made);
  std::memset(host_, 0, static_cast<size_t>(bytes));
  SHAMPOO_RETURN_IF_ERROR(StatusOf(cudaHostGetDevicePointer(&made, host_, 0), "cudaHostGetDevicePointer"));
  device_ = static_cast<char*>(made);
  return {};
}

MappedMemory::~MappedMemory() {
  if (host_ != nullptr) (void)cudaFreeHost(host_);
}

}  // namespace shampoo::cuda
