// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusolverDn.h>

#include <cstdint>
#include <utility>

#include "core/base/status.h"

// Owners of what the libraries of CUDA hand out.
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
  // That the legacy default stream does not wait for.
  Status Create();
  Status CreateWithPriority(bool first);  // the highest, or the lowest, which is that of streams without one
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// Handles of one stream: work on them runs in its order. cuBLAS has a workspace of its own for each, so that the same
// call gives the same bits whatever else runs.
struct Handles {
  cudaStream_t stream = nullptr;
  cublasHandle_t blas = nullptr;
  cusolverDnHandle_t solver = nullptr;
};

class OwnedHandles {
 public:
  OwnedHandles() = default;
  OwnedHandles(OwnedHandles&& other) noexcept
      : stream_(std::move(other.stream_)),
        handles_(std::exchange(other.handles_, {})),
        workspace_(other.workspace_),
        workspace_bytes_(other.workspace_bytes_) {}
  OwnedHandles& operator=(OwnedHandles&&) = delete;
  ~OwnedHandles();

  enum class Order {
    kBound,     // of the stream that Bind gives
    kOwnFirst,  // of a stream of their own, with the highest priority
    kOwnLast,   // the same, with the lowest
  };
  Status Create(Order order);
  // For cuBLAS, on the device.
  Status SetWorkspace(void* workspace, int64_t bytes);
  Status Bind(cudaStream_t stream);
  const Handles& get() const { return handles_; }

 private:
  OwnedStream stream_;
  Handles handles_;
  void* workspace_ = nullptr;
  int64_t workspace_bytes_ = 0;
};

}  // namespace shampoo::cuda
