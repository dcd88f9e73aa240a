// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/roots_ahead.h"

#include <algorithm>

#include "core/backend/cuda/plugin/call.h"

namespace shampoo::cuda {
namespace {

constexpr int64_t kMostEvents = 128;

}  // namespace

Status RootsAhead::Create(const std::vector<RootSizes>& sizes, int64_t block_count, int64_t steps,
                          std::unique_ptr<RootsAhead>* out) {
  std::unique_ptr<RootsAhead> made(new RootsAhead);
  SHAMPOO_RETURN_IF_ERROR(made->handles_.Create(OwnedHandles::Order::kOwnLast));
  SHAMPOO_RETURN_IF_ERROR(RootSolver::Create(sizes, made->handles(), &made->solver_));
  SHAMPOO_RETURN_IF_ERROR(made->followed_.Create());
  made->done_.resize(static_cast<size_t>(std::min(steps + 1, kMostEvents)));
  for (OwnedEvent& event : made->done_) SHAMPOO_RETURN_IF_ERROR(event.Create());
  made->given_.resize(static_cast<size_t>(block_count));
  *out = std::move(made);
  return {};
}

RootsAhead::~RootsAhead() {
  if (handles().stream != nullptr) (void)cudaStreamSynchronize(handles().stream);
}

Status RootsAhead::Join(int64_t block, cudaStream_t stream) {
  const int64_t ticket = given_[static_cast<size_t>(block)];
  if (ticket <= joined_) return {};
  SHAMPOO_CUDA_TRY(cudaStreamWaitEvent(stream, DoneOf(ticket).get(), 0));
  joined_ = ticket;
  return {};
}

Status RootsAhead::Follow(cudaStream_t stream) {
  SHAMPOO_CUDA_TRY(cudaEventRecord(followed_.get(), stream));
  SHAMPOO_CUDA_TRY(cudaStreamWaitEvent(handles().stream, followed_.get(), 0));
  return {};
}

Status RootsAhead::EndGiving(int64_t ticket) {
  SHAMPOO_CUDA_TRY(cudaEventRecord(DoneOf(ticket).get(), handles().stream));
  return {};
}

}  // namespace shampoo::cuda
