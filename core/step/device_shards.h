// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "core/step/device_ranks.h"
#include "core/step/shard_agreement.h"

namespace shampoo {

// The ranks that hold the other shards of the parameters of an optimizer on a device, over a communicator that takes
// device memory. The devices agree before anything is written. After a rejected step, the hosts run the agreement of
// the CPU backend with the same inputs to find the text of the error.
class DeviceShards final : public DeviceRanks {
 public:
  // optimizer: from Communicator::TakeOptimizerId().
  DeviceShards(const StepInputs& inputs, const std::shared_ptr<Communicator>& comm, int32_t optimizer);

  Communicator* comm() const override { return step_.comm(); }
  int32_t optimizer() const override { return step_.optimizer(); }
  bool hold_shards() const override { return true; }
  int64_t staging_bytes() const override;
  void Prepare(const int64_t* counters, cuda::StepArgs* args) override;
  Status TakeFailure() override;
  Status Agree(const cuda::StepReport& report, Status own, int64_t step, bool was_replayed) override;
  Status AgreeAgain(Status own, bool was_replayed) override;

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
