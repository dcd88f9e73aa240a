// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/async_roots.h"

#include <algorithm>

#include "core/backend/cuda/plugin/cuda_call.h"

namespace shampoo::cuda {
namespace {

constexpr int64_t kMaxEvents = 128;

}  // namespace

Status AsyncRoots::Create(const std::vector<RootSizes>& sizes, int64_t block_count, int64_t steps,
                          std::unique_ptr<AsyncRoots>* out) {
  std::unique_ptr<AsyncRoots> made(new AsyncRoots);
  SHAMPOO_RETURN_IF_ERROR(
      made->handles_.Create(OwnedHandles::Order::kOwnLowest, OwnedHandles::Libraries::kBlasAndSolver));
  SHAMPOO_RETURN_IF_ERROR(RootSolver::Create(sizes, made->handles(), &made->solver_));
  SHAMPOO_RETURN_IF_ERROR(made->start_.Create());
  made->done_.resize(static_cast<size_t>(std::min(steps + 1, kMaxEvents)));
  for (OwnedEvent& event : made->done_) SHAMPOO_RETURN_IF_ERROR(event.Create());
  made->last_ticket_.resize(static_cast<size_t>(block_count));
  *out = std::move(made);
  return {};
}

AsyncRoots::~AsyncRoots() {
  if (handles().stream != nullptr) (void)cudaStreamSynchronize(handles().stream);
}

Status AsyncRoots::WaitForRoots(int64_t block, cudaStream_t stream) {
  const int64_t ticket = last_ticket_[static_cast<size_t>(block)];
  if (ticket <= waited_ticket_) return {};
  SHAMPOO_CUDA_TRY(cudaStreamWaitEvent(stream, DoneOf(ticket).get(), 0));
  waited_ticket_ = ticket;
  return {};
}

Status AsyncRoots::StartAfter(cudaStream_t stream) {
  SHAMPOO_CUDA_TRY(cudaEventRecord(start_.get(), stream));
  SHAMPOO_CUDA_TRY(cudaStreamWaitEvent(handles().stream, start_.get(), 0));
  return {};
}

Status AsyncRoots::RecordEnd(int64_t ticket) {
  SHAMPOO_CUDA_TRY(cudaEventRecord(DoneOf(ticket).get(), handles().stream));
  return {};
}

}  // namespace shampoo::cuda
