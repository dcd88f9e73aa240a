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

// The pinned memory through which a step exchanges data over communicators that take host memory. For each exchange,
// the library calls Fetch() for the data that this rank sends, then the communicator, and then Return() for the
// received data.
class HostExchange {
 public:
  static Status Create(int64_t bytes, std::unique_ptr<HostExchange>* out);
  HostExchange(const HostExchange&) = delete;
  HostExchange& operator=(const HostExchange&) = delete;

  char* memory() const { return memory_.host(); }
  // Copies device memory to memory() + offset in the order of the stream, and waits for the copy. First waits for the
  // copies of earlier calls of Return(), which read the same memory.
  Status Fetch(int64_t offset, const void* from, int64_t bytes, cudaStream_t stream);
  // Copies from memory() + offset to device memory in the order of the stream. Does not wait for the copy.
  Status Return(void* to, int64_t offset, int64_t bytes, cudaStream_t stream);

 private:
  HostExchange() = default;

  MappedMemory memory_;
  OwnedEvent returned_;  // recorded after the last copy to the device
};

}  // namespace shampoo::cuda
