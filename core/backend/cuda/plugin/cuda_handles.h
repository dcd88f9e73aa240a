// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusolverDn.h>

#include <cstdint>
#include <utility>

#include "core/base/status.h"

// Types that own CUDA events, CUDA streams, or handles of cuBLAS and cuSOLVER.
namespace shampoo::cuda {

class OwnedEvent {
 public:
  OwnedEvent() = default;
  OwnedEvent(OwnedEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  OwnedEvent& operator=(OwnedEvent&&) = delete;
  ~OwnedEvent() {
    if (event_ != nullptr) (void)cudaEventDestroy(event_);
  }
  Status Create();  // without timing
  Status CreateTimed();
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class OwnedStream {
 public:
  OwnedStream() = default;
  OwnedStream(OwnedStream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  OwnedStream& operator=(OwnedStream&&) = delete;
  ~OwnedStream() {
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  }
  // Both functions create a stream that does not synchronize with the legacy default stream.
  Status Create();                          // the stream has the lowest priority
  Status CreateWithPriority(bool highest);  // false: the stream has the lowest priority
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// Handles that are bound to one stream, in which all their work runs. Each cuBLAS handle has its own workspace, so that
// the results of a call are bit-identical regardless of other work on the device.
struct Handles {
  cudaStream_t stream = nullptr;
  cublasHandle_t blas = nullptr;
  cusolverDnHandle_t solver = nullptr;  // nullptr: the stream runs no work of cuSOLVER
};

class OwnedHandles {
 public:
  OwnedHandles() = default;
  OwnedHandles(OwnedHandles&& other) noexcept
      : stream_(std::move(other.stream_)),
        handles_(std::exchange(other.handles_, {})),
        workspace_(other.workspace_),
        workspace_bytes_(other.workspace_bytes_),
        is_bound_(other.is_bound_) {}
  OwnedHandles& operator=(OwnedHandles&&) = delete;
  ~OwnedHandles();

  enum class Stream {
    kBoundLater,       // no stream until Bind() is called
    kOwnHighPriority,  // a stream of its own with the highest priority
    kOwnLowPriority,   // a stream of its own with the lowest priority
  };
  enum class Libraries { kBlas, kBlasAndSolver };
  Status Create(Stream stream, Libraries libraries);
  // Sets cuBLAS's workspace, which is device memory.
  Status SetWorkspace(void* workspace, int64_t bytes);
  // Binds the handles to a stream. Does nothing if they are already bound to it.
  Status Bind(cudaStream_t stream);
  const Handles& get() const { return handles_; }

 private:
  OwnedStream stream_;
  Handles handles_;
  void* workspace_ = nullptr;
  int64_t workspace_bytes_ = 0;
  bool is_bound_ = false;  // whether the handles use handles_.stream and workspace_
};

}  // namespace shampoo::cuda
