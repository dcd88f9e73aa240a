// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/exchange_stream.h"

#include "core/backend/cuda/plugin/cuda_call.h"

namespace shampoo::cuda {

Status ExchangeStream::Create() {
  SHAMPOO_RETURN_IF_ERROR(begun_.Create());
  for (OwnedEvent& event : ended_) SHAMPOO_RETURN_IF_ERROR(event.Create());
  return stream_.CreateWithPriority(true);
}

Status ExchangeStream::Begin(cudaStream_t caller, cudaStream_t* out) {
  *out = caller;
  if (stream_.get() == nullptr) return {};
  SHAMPOO_CUDA_TRY(cudaEventRecord(begun_.get(), caller));
  SHAMPOO_CUDA_TRY(cudaStreamWaitEvent(stream_.get(), begun_.get(), 0));
  ++running_;
  *out = stream_.get();
  return {};
}

Status ExchangeStream::End(int32_t bucket) {
  if (stream_.get() == nullptr) return {};
  SHAMPOO_CUDA_TRY(cudaEventRecord(ended_[static_cast<size_t>(bucket % 2)].get(), stream_.get()));
  return {};
}

Status ExchangeStream::Wait(cudaStream_t caller, int32_t bucket) {
  if (stream_.get() == nullptr) return {};
  SHAMPOO_CUDA_TRY(cudaStreamWaitEvent(caller, ended_[static_cast<size_t>(bucket % 2)].get(), 0));
  --running_;
  return {};
}

Status ExchangeStream::Join(cudaStream_t caller) {
  if (running_ == 0) return {};
  running_ = 0;
  SHAMPOO_CUDA_TRY(cudaEventRecord(begun_.get(), stream_.get()));
  SHAMPOO_CUDA_TRY(cudaStreamWaitEvent(caller, begun_.get(), 0));
  return {};
}

}  // namespace shampoo::cuda
