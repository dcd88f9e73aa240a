// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/cuda_handles.h"

#include "core/backend/cuda/plugin/cuda_call.h"

namespace shampoo::cuda {

Status OwnedEvent::Create() {
  return StatusOf(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
}

Status OwnedEvent::CreateTimed() {
  return StatusOf(cudaEventCreateWithFlags(&event_, cudaEventDefault), "cudaEventCreateWithFlags");
}

Status OwnedStream::Create() {
  return StatusOf(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

Status OwnedStream::CreateWithPriority(bool highest) {
  int least = 0;
  int greatest = 0;
  SHAMPOO_CUDA_TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  SHAMPOO_CUDA_TRY(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest ? greatest : least));
  return {};
}

OwnedHandles::~OwnedHandles() {
  if (handles_.solver != nullptr) (void)cusolverDnDestroy(handles_.solver);
  if (handles_.blas != nullptr) (void)cublasDestroy(handles_.blas);
}

Status OwnedHandles::Create(Stream stream, Libraries libraries) {
  SHAMPOO_CUDA_TRY(cublasCreate(&handles_.blas));
  if (libraries == Libraries::kBlasAndSolver) {
    SHAMPOO_CUDA_TRY(cusolverDnCreate(&handles_.solver));
    // This mode is the default. Set it in case a later version of cuSOLVER has another default.
    SHAMPOO_CUDA_TRY(cusolverDnSetDeterministicMode(handles_.solver, CUSOLVER_DETERMINISTIC_RESULTS));
  }
  if (stream == Stream::kBoundLater) return {};
  return stream_.CreateWithPriority(stream == Stream::kOwnHighPriority);
}

Status OwnedHandles::SetWorkspace(void* workspace, int64_t bytes) {
  workspace_ = workspace;
  workspace_bytes_ = bytes;
  is_bound_ = false;
  return stream_.get() != nullptr ? Bind(stream_.get()) : Status();
}

Status OwnedHandles::Bind(cudaStream_t stream) {
  if (is_bound_ && handles_.stream == stream) return {};
  is_bound_ = false;  // stays false if one of the following calls fails
  handles_.stream = stream;
  SHAMPOO_CUDA_TRY(cublasSetStream(handles_.blas, stream));
  // cublasSetStream resets the workspace.
  SHAMPOO_CUDA_TRY(cublasSetWorkspace(handles_.blas, workspace_, static_cast<size_t>(workspace_bytes_)));
  if (handles_.solver != nullptr) SHAMPOO_CUDA_TRY(cusolverDnSetStream(handles_.solver, stream));
  is_bound_ = true;
  return {};
}

}  // namespace shampoo::cuda
