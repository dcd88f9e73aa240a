// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/host_root_transfer.h"

#include <utility>

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/base/text.h"

namespace shampoo::cuda {
namespace {

// Selects the device and the capture mode (CaptureModeScope) for a call on a thread of the library. Unlike DeviceScope,
// this class does not restore the device: restoring device 0, the current device of a new thread, would create a CUDA
// context on device 0.
class ThreadScope {
 public:
  explicit ThreadScope(int device) : error_(cudaSetDevice(device)) {}
  Status status() const { return StatusOf(error_, "cudaSetDevice"); }

 private:
  CaptureModeScope mode_;
  cudaError_t error_;
};

}  // namespace

Status HostRootTransfer::Create(int device, const PlanView& plan, int64_t steps, int64_t buffer_bytes,
                                std::unique_ptr<HostRootTransfer>* out) {
  std::unique_ptr<HostRootTransfer> made(new HostRootTransfer(device, plan));
  int64_t roots = 0;
  for (int64_t b = 0; b < plan.block_count; ++b) {
    made->first_root_.push_back(roots);
    roots += plan.blocks[b].factor_count();
  }
  made->places_.resize(static_cast<size_t>(roots));
  for (MappedMemory& buffer : made->buffers_) {
    SHAMPOO_RETURN_IF_ERROR(
        buffer.Allocate(buffer_bytes).Within(Cat(buffer_bytes, " bytes of pinned memory for root_device=host")));
  }
  made->buffer_bytes_ = buffer_bytes;
  SHAMPOO_RETURN_IF_ERROR(made->stream_.CreateWithPriority(false));
  for (OwnedEvent& event : made->fetched_) SHAMPOO_RETURN_IF_ERROR(event.Create());
  SHAMPOO_RETURN_IF_ERROR(made->order_.Create(plan.block_count, steps));
  *out = std::move(made);
  return {};
}

HostRootTransfer::~HostRootTransfer() {
  if (stream_.get() != nullptr) (void)cudaStreamSynchronize(stream_.get());
}

Status HostRootTransfer::Start(const HostRootStart& start, int64_t* job) {
  const auto stream = static_cast<cudaStream_t>(start.stream);
  const auto* const arena = static_cast<const char*>(start.arena);
  for (int64_t b = 0; b < plan_.block_count && arena != nullptr; ++b) {
    if (start.tasks[b] != start.task) continue;
    const Block& block = plan_.blocks[b];
    SHAMPOO_RETURN_IF_ERROR(WaitForRoots(b, stream));
    for (int k = 0; k < block.factor_count(); ++k) {
      if (!block.has_factor(k)) continue;
      const Place& place = places_[RootAt(b, k)];
      const auto copy = [stream](void* to, const char* from, size_t bytes) {
        return StatusOf(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync");
      };
      SHAMPOO_RETURN_IF_ERROR(
          copy(place.matrix, arena + block.snapshot[static_cast<size_t>(k)].offset, static_cast<size_t>(place.bytes)));
      const char* const flags = arena + block.diagonal.offset;
      SHAMPOO_RETURN_IF_ERROR(copy(place.flag, flags + k * static_cast<int64_t>(sizeof(int32_t)), sizeof(int32_t)));
    }
  }
  SHAMPOO_RETURN_IF_ERROR(order_.RecordStart(stream, job));
  for (int64_t b = 0; b < plan_.block_count; ++b) {
    if (start.tasks[b] == start.task) order_.SetJob(b, *job);
  }
  return {};
}

Status HostRootTransfer::Begin(int64_t job) {
  const ThreadScope scope(device_);
  SHAMPOO_RETURN_IF_ERROR(scope.status());
  return order_.WaitForStart(stream_.get(), job);
}

Status HostRootTransfer::Fetch(const HostRoot* roots, int64_t count, int32_t buffer) {
  const ThreadScope scope(device_);
  SHAMPOO_RETURN_IF_ERROR(scope.status());
  for (const HostRoot* root = roots; root != roots + count; ++root) {
    const Place& place = places_[RootAt(root->block, root->dim)];
    SHAMPOO_CUDA_TRY(cudaMemcpyAsync(root->matrix, place.matrix, static_cast<size_t>(place.bytes),
                                     cudaMemcpyDeviceToHost, stream_.get()));
    SHAMPOO_CUDA_TRY(cudaMemcpyAsync(&root->header->may_be_diagonal, place.flag, sizeof(int32_t),
                                     cudaMemcpyDeviceToHost, stream_.get()));
  }
  SHAMPOO_CUDA_TRY(cudaEventRecord(fetched_[static_cast<size_t>(buffer)].get(), stream_.get()));
  return {};
}

Status HostRootTransfer::WaitForFetch(int32_t buffer) {
  const ThreadScope scope(device_);
  SHAMPOO_RETURN_IF_ERROR(scope.status());
  SHAMPOO_CUDA_TRY(cudaEventSynchronize(fetched_[static_cast<size_t>(buffer)].get()));
  return {};
}

Status HostRootTransfer::Return(const HostRoot* roots, int64_t count) {
  const ThreadScope scope(device_);
  SHAMPOO_RETURN_IF_ERROR(scope.status());
  for (const HostRoot* root = roots; root != roots + count; ++root) {
    const Place& place = places_[RootAt(root->block, root->dim)];
    const RootStatus& status = root->header->status;
    if (status.failure == RootFailure::kNone) {
      SHAMPOO_CUDA_TRY(cudaMemcpyAsync(place.matrix, root->matrix, static_cast<size_t>(place.bytes),
                                       cudaMemcpyHostToDevice, stream_.get()));
    }
    SHAMPOO_CUDA_TRY(cudaMemcpyAsync(place.status, &status, sizeof status, cudaMemcpyHostToDevice, stream_.get()));
  }
  return {};
}

Status HostRootTransfer::End(int64_t job) {
  const ThreadScope scope(device_);
  // Record the end even after an error, because the job may have enqueued work.
  Status ended = order_.RecordEnd(stream_.get(), job);
  return scope.status().ok() ? std::move(ended) : scope.status();
}

}  // namespace shampoo::cuda
