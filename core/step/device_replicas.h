// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "core/backend/cuda/device_engine.h"
#include "core/backend/cuda/device_state_memory.h"
#include "core/comm/round.h"
#include "core/step/replica_inputs.h"
#include "core/step/step_strategy.h"

namespace shampoo {

// How an optimizer on a device steps together with other copies of the parameters.
class DeviceReplicas {
 public:
  virtual ~DeviceReplicas() = default;
  // Returns an error if a collective of these ranks has failed before.
  virtual Status PriorFailure() const = 0;
  // Whether every rank must make the same calls, with the same results.
  virtual bool AreSeveral() const = 0;
  // Fills in what the device compares with other ranks, and how it reaches them. own: why this rank cannot make the
  // step. counters: by group. args->captured must be set.
  virtual void Prepare(const int64_t* counters, const Status& own, cuda::StepArgs* args) = 0;
  // After a step was enqueued: the failure of a collective in it. Returned once.
  virtual Status TakeFailure() = 0;
  // Returns the error of a rejected step. own: what this rank's device found; step: of the last call, on this rank;
  // was_replayed: it is the replay of a captured step.
  virtual Status ErrorOf(const cuda::StepReport& report, Status own, int64_t step, bool was_replayed) = 0;
};

// One copy.
class SingleDevice final : public DeviceReplicas {
 public:
  Status PriorFailure() const override { return {}; }
  bool AreSeveral() const override { return false; }
  void Prepare(const int64_t* /*counters*/, const Status& /*own*/, cuda::StepArgs* /*args*/) override {}
  Status TakeFailure() override { return {}; }
  Status ErrorOf(const cuda::StepReport& /*report*/, Status own, int64_t /*step*/, bool /*was_replayed*/) override {
    return own;
  }
};

// Several copies, over a communicator that takes memory of the device. The devices exchange headers and updates in the
// order of the stream; only after a step was rejected do the hosts exchange the reasons.
class SeveralDevices final : public DeviceReplicas {
 public:
  // optimizer: its number among those of the communicator. Allocates what the exchange of reasons needs on the device.
  static Status Create(const StepInputs& inputs, std::shared_ptr<Communicator> comm, int32_t optimizer,
                       std::shared_ptr<const cuda::DeviceEngine> engine, const cuda::DeviceStateMemory* memory,
                       std::unique_ptr<DeviceReplicas>* out);

  Status PriorFailure() const override { return rounds_.PriorFailure(); }
  bool AreSeveral() const override { return true; }
  void Prepare(const int64_t* counters, const Status& own, cuda::StepArgs* args) override;
  Status TakeFailure() override;
  Status ErrorOf(const cuda::StepReport& report, Status own, int64_t step, bool was_replayed) override;

 private:
  SeveralDevices(const StepInputs& inputs, std::shared_ptr<Communicator> comm, int32_t optimizer,
                 const cuda::DeviceStateMemory* memory);
  static int32_t Gather(void* self, void* buffer, int64_t segment_bytes, void* stream);

  StepInputs inputs_;
  Rounds rounds_;
  const cuda::DeviceStateMemory* memory_;
  // A step may be captured before the error of the step before it was reported, so that both are kept.
  ReplicaInputs step_inputs_;      // of the last step that was not captured
  ReplicaInputs captured_inputs_;  // of the last captured step
  Status own_failure_;             // why this rank's host could not make the last step that was not captured
  Status lost_;                    // the failure of a collective of the step that is being enqueued
};

}  // namespace shampoo
