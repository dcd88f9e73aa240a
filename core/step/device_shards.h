// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "core/step/device_collectives.h"
#include "core/step/device_ranks.h"
#include "core/step/shard_agreement.h"

namespace shampoo {

// The shard ranks of an optimizer on a device. Their devices agree on a step before anything is written. If the step is
// rejected, the hosts repeat the agreement with the same inputs, in the same way as on the CPU, to find the error
// message.
class DeviceShards final : public DeviceRanks {
 public:
  // optimizer: the number from Communicator::TakeOptimizerId(). The engine must outlive this object.
  DeviceShards(const StepInputs& inputs, const std::shared_ptr<Communicator>& comm, int32_t optimizer,
               const cuda::DeviceEngine* engine);

  Communicator* comm() const override { return step_.comm(); }
  int32_t optimizer() const override { return step_.optimizer(); }
  const char* kind() const override { return "shard"; }
  int64_t staging_bytes() const override;
  // A shard rank does not always know that another shard rank has skipped an update.
  bool is_skipped_update_known() const override { return false; }
  // Other shard ranks may make a step of a group of which this rank has no gradient.
  bool IsStepKnown(bool has_gradient) const override { return has_gradient; }
  const int64_t* CountedSteps(const int64_t* /*expected*/, const int64_t* reported) const override { return reported; }
  void Prepare(const int64_t* counters, cuda::StepArgs* args) override;
  Status TakeFailure() override { return collectives_.TakeFailure(); }
  bool CanStillReject() const override;
  void SkipJoinedCollectives() override { collectives_.SkipJoined(); }
  Status Agree(const cuda::StepReport& report, Status own, int64_t step, bool was_replayed) override;
  Status AgreeAgain(Status own, bool was_replayed) override;

 private:
  ShardRounds& RoundsOf(bool captured) { return captured ? captured_ : step_; }

  StepInputs inputs_;
  // A ShardRounds keeps the values that shard ranks compare in a step (ShardRounds::SetInputs), to find the error if
  // the step is rejected. There are two such objects, because a step may be captured before the error of an earlier
  // step was reported.
  ShardRounds step_;      // of the last step that was not captured
  ShardRounds captured_;  // of the last captured step
  DeviceCollectives collectives_;
};

}  // namespace shampoo
