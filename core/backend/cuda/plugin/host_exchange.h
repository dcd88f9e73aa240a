// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "core/backend/cuda/plugin/cuda_handles.h"
#include "core/backend/cuda/plugin/device_memory.h"
#include "core/base/status.h"

namespace shampoo::cuda {

// The pinned memory through which a step exchanges data over communicators that take host memory. For an exchange, the
// library fetches the data that this rank sends, and thereby waits for the stream. Then it calls the communicator, and
// enqueues a copy of the received data to the device.
class HostExchange {
 public:
  static Status Create(int64_t bytes, std::unique_ptr<HostExchange>* out);
  HostExchange(const HostExchange&) = delete;
  HostExchange& operator=(const HostExchange&) = delete;

  char* memory() const { return memory_.host(); }
  // Copies device memory to `offset` in the order of the stream, and waits for the copy. Before that it waits for the
  // copies of earlier calls of Return(), which read the memory.
  Status Fetch(int64_t offset, const void* from, int64_t bytes, cudaStream_t stream);
  // Copies from `offset` to device memory in the order of the stream. Does not wait.
  Status Return(void* to, int64_t offset, int64_t bytes, cudaStream_t stream);

 private:
  HostExchange() = default;

  MappedMemory memory_;
  OwnedEvent returned_;  // after the last copy to the device
};

}  // namespace shampoo::cuda
