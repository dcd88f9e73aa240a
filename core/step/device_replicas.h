// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/backend/cuda/device_engine.h"
#include "core/comm/round.h"
#include "core/step/device_collectives.h"
#include "core/step/device_ranks.h"
#include "core/step/replica_inputs.h"
#include "core/step/step_strategy.h"

namespace shampoo {

// The other replicas of an optimizer on a device. The devices of all replicas exchange headers and updates.
class DeviceReplicas final : public DeviceRanks {
 public:
  // optimizer: the number from Communicator::TakeOptimizerId(). The engine must outlive this object.
  DeviceReplicas(const StepInputs& inputs, std::shared_ptr<Communicator> comm, int32_t optimizer,
                 const cuda::DeviceEngine* engine);

  Communicator* comm() const override { return rounds_.comm(); }
  int32_t optimizer() const override { return rounds_.optimizer(); }
  const char* kind() const override { return "replica"; }
  int64_t staging_bytes() const override;
  void Prepare(const int64_t* counters, cuda::StepArgs* args) override;
  Status TakeFailure() override { return collectives_.TakeFailure(); }
  // In the first exchange of a step, each replica sends a header with its error code and hashes of its inputs. The
  // replicas compare the headers and decide whether they make the step.
  bool CanStillReject() const override { return collectives_.joined() == 0 && !collectives_.has_lost_data(); }
  void SkipJoinedCollectives() override { collectives_.SkipJoined(); }
  Status Agree(const cuda::StepReport& report, Status own, int64_t step, bool was_replayed) override;

 private:
  StepInputs inputs_;
  Rounds rounds_;
  const cuda::DeviceEngine* engine_;
  // If the inputs of a step differ between replicas, Agree() finds the difference in the ReplicaInputs of that step.
  // There are two ReplicaInputs, because a step may be captured before the error of an earlier step was reported.
  ReplicaInputs step_inputs_;      // of the last step that was not captured
  ReplicaInputs captured_inputs_;  // of the last captured step
  // Points to FetchErrorOfReplicas(), whose error may mention changed states. If PlanData::replicas_agree_first() is
  // true, points to FetchErrorBeforeStep() (device_replicas.cc) instead, because no states have changed.
  Status (*fetch_error_)(Rounds* rounds, const std::string& own_text);
  DeviceCollectives collectives_;
};

}  // namespace shampoo
