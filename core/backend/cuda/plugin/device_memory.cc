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
    call_ = "cudaSetDevice";
    error_ = cudaSetDevice(device);
  }
}

DeviceScope::~DeviceScope() {
  if (before_ >= 0) (void)cudaSetDevice(before_);
}

Status DeviceScope::status() const { return StatusOf(error_, call_); }

Status DeviceMemory::Allocate(const Source& source, Access access, int64_t bytes, const char* what) {
  const HostAllocator& allocator = source.allocator;
  const int device = source.device;
  void* made = nullptr;
  if (allocator.allocate != nullptr) {
    made =
        allocator.allocate(allocator.user, static_cast<size_t>(bytes), kAlignment, kDeviceType, device, source.stream);
    if (made == nullptr) {
      return NoMemory(
          "your shampoo_allocator returned NULL for ", bytes, " bytes of ", what, " on device ", device,
          "; query shampoo_plan_bytes beforehand, and use smaller blocks (max_preconditioner_dim) or narrower "
          "state dtypes");
    }
    if (reinterpret_cast<uintptr_t>(made) % kAlignment != 0) {
      allocator.deallocate(allocator.user, made, static_cast<size_t>(bytes), kDeviceType, device, source.stream);
      return Invalid("your shampoo_allocator returned device memory that is not aligned: expected an alignment of ",
                     kAlignment, " bytes");
    }
  } else {
    const auto size = static_cast<size_t>(bytes);
    Status status = access == Access::kPeers ? StatusOf(cudaMalloc(&made, size), "cudaMalloc")
                                             : StatusOf(cudaMallocAsync(&made, size, source.stream), "cudaMallocAsync");
    if (!status.ok()) {
      return std::move(status).Within(Cat(bytes, " bytes of ", what, " on device ", device,
                                          " (query shampoo_plan_bytes beforehand, and use smaller blocks or narrower "
                                          "state dtypes)"));
    }
  }
  data_ = static_cast<char*>(made);
  bytes_ = bytes;
  source_ = source;
  access_ = access;
  return {};
}

DeviceMemory::~DeviceMemory() {
  if (data_ == nullptr) return;
  const HostAllocator& allocator = source_.allocator;
  if (allocator.deallocate != nullptr) {
    allocator.deallocate(allocator.user, data_, static_cast<size_t>(bytes_), kDeviceType, source_.device, nullptr);
  } else if (access_ == Access::kPeers) {
    (void)cudaFree(data_);
  } else {
    (void)cudaFreeAsync(data_, source_.free_stream);
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
