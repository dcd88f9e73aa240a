// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/host_exchange.h"

#include <utility>

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/base/text.h"

namespace shampoo::cuda {

Status HostExchange::Create(int64_t bytes, std::unique_ptr<HostExchange>* out) {
  std::unique_ptr<HostExchange> made(new HostExchange);
  SHAMPOO_RETURN_IF_ERROR(made->memory_.Allocate(bytes).Within(
      Cat(bytes, " bytes of pinned memory for a communicator that takes host memory")));
  SHAMPOO_RETURN_IF_ERROR(made->returned_.Create());
  *out = std::move(made);
  return {};
}

Status HostExchange::Fetch(int64_t offset, const void* from, int64_t bytes, cudaStream_t stream) {
  // The previous call of Return() may have enqueued its copy in another stream. That copy may still read memory().
  SHAMPOO_CUDA_TRY(cudaEventSynchronize(returned_.get()));
  if (bytes > 0) {
    SHAMPOO_CUDA_TRY(
        cudaMemcpyAsync(memory() + offset, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream));
  }
  SHAMPOO_CUDA_TRY(cudaStreamSynchronize(stream));
  return {};
}

Status HostExchange::Return(void* to, int64_t offset, int64_t bytes, cudaStream_t stream) {
  if (bytes > 0) {
    SHAMPOO_CUDA_TRY(
        cudaMemcpyAsync(to, memory() + offset, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream));
  }
  SHAMPOO_CUDA_TRY(cudaEventRecord(returned_.get(), stream));
  return {};
}

}  // namespace shampoo::cuda
