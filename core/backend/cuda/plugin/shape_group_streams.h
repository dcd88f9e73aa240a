// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "core/backend/cuda/block_batches.h"
#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/cuda_handles.h"
#include "core/base/status.h"

namespace shampoo::cuda {

// Distributes the work for the shape groups of a batch (block_batches.h) over several streams, so that the work for
// different shape groups runs in parallel.
class ShapeGroupStreams {
 public:
  // Each element of `handles` is bound to a different stream. handles[0] is bound to the caller's stream. ForEach()
  // records the event `forked` in the caller's stream before the work. For i above 0, it records the event joined[i] in
  // the stream of handles[i] after the work. All arguments must outlive the object.
  ShapeGroupStreams(const std::vector<OwnedHandles>& handles, const OwnedEvent& forked,
                    const std::vector<OwnedEvent>& joined)
      : handles_(handles), forked_(forked), joined_(joined) {}

  const Handles& first() const { return handles_[0].get(); }

  // Calls work(element, shape_group) for one shape group after another, until a call fails. The first argument is an
  // element of the constructor's `handles`, and `work` must enqueue only on the stream of this element. The device runs
  // the enqueued work after all earlier work on the caller's stream, and before all later work on the caller's stream.
  // stream: the caller's stream.
  template <typename Work>
  Status ForEach(cudaStream_t stream, const BlockBatch& batch, const Work& work) const {
    const size_t streams = std::min(batch.shape_groups.size(), handles_.size());
    if (streams > 1) SHAMPOO_CUDA_TRY(cudaEventRecord(forked_.get(), stream));
    for (size_t i = 1; i < streams; ++i) {
      SHAMPOO_CUDA_TRY(cudaStreamWaitEvent(handles_[i].get().stream, forked_.get(), 0));
    }
    Status status;
    for (size_t c = 0; c < batch.shape_groups.size() && status.ok(); ++c) {
      status = work(handles_[c % streams].get(), batch.shape_groups[c]);
    }
    // The streams are joined even after a failure. Without the join, the capture of a CUDA graph would become invalid,
    // and work could still run after the step.
    for (size_t i = 1; i < streams; ++i) {
      Status joined = StatusOf(cudaEventRecord(joined_[i].get(), handles_[i].get().stream), "cudaEventRecord");
      if (joined.ok()) joined = StatusOf(cudaStreamWaitEvent(stream, joined_[i].get(), 0), "cudaStreamWaitEvent");
      if (status.ok()) status = std::move(joined);
    }
    return status;
  }

 private:
  const std::vector<OwnedHandles>& handles_;
  const OwnedEvent& forked_;
  const std::vector<OwnedEvent>& joined_;
};

}  // namespace shampoo::cuda
