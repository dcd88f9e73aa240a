// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "core/backend/cuda/interface.h"
#include "core/step/shard_agreement.h"

namespace shampoo {

// The ranks that hold the other shards of the parameters of an optimizer on a device, over a communicator that takes
// device memory. The devices agree before anything is written. After a rejected step, the hosts run the agreement of
// the CPU backend with the same inputs to find the text of the error.
class DeviceShards {
 public:
  // optimizer: from Communicator::TakeOptimizerId().
  DeviceShards(const StepInputs& inputs, const std::shared_ptr<Communicator>& comm, int32_t optimizer);

  Communicator* comm() const { return step_.comm(); }
  int32_t optimizer() const { return step_.optimizer(); }
  // Returns the bytes of device memory that the exchange of error texts needs.
  int64_t staging_bytes() const;

  // See DevicePeers.
  void Prepare(cuda::StepArgs* args);
  Status TakeFailure();
  // Returns the error of all shards of a rejected step; success if none of them has one. own: this rank's error.
  // Collective.
  Status Agree(const cuda::StepReport& report, Status own, bool was_replayed);
  // Returns this rank's own error if it has one, otherwise that of another shard. Collective.
  Status AgreeAgain(Status own, bool was_replayed);

 private:
  static int32_t Gather(void* self, void* buffer, int64_t segment_bytes, void* stream);
  static int32_t AllToAll(void* self, const void* send, const size_t* send_bytes, void* recv, const size_t* recv_bytes,
                          void* stream);
  ShardRounds& RoundsOf(bool captured) { return captured ? captured_ : step_; }

  StepInputs inputs_;
  // Each has the inputs of its last step. There are two, because a step may be captured before the error of an earlier
  // step was reported.
  ShardRounds step_;
  ShardRounds captured_;
  bool is_captured_ = false;  // whether the step that is being enqueued is captured
  Status gather_failure_;     // the failure of a collective of the step that is being enqueued
};

}  // namespace shampoo
