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

// The other copies of the parameters that an optimizer on a device steps together with.
class DeviceReplicas {
 public:
  virtual ~DeviceReplicas() = default;
  // Returns an error if a collective of these ranks has failed before.
  virtual Status PriorFailure() const = 0;
  // Whether there are other ranks, which must make the same calls and return the same results.
  virtual bool HasPeers() const = 0;
  // Fills in the values that the device compares with other ranks, and the function that exchanges them. own: the error
  // of a rank that cannot make the step. counters: by group. args->captured must be set.
  virtual void Prepare(const int64_t* counters, const Status& own, cuda::StepArgs* args) = 0;
  // Returns, once, the failure of a collective in the step that was enqueued last.
  virtual Status TakeFailure() = 0;
  // Returns the error of a rejected step. own: the error of this rank's device; step: that of the last call on this
  // rank; was_replayed: the rejected step is the replay of a captured step.
  virtual Status RejectionError(const cuda::StepReport& report, Status own, int64_t step, bool was_replayed) = 0;
};

// One copy of the parameters.
class SingleDevice final : public DeviceReplicas {
 public:
  Status PriorFailure() const override { return {}; }
  bool HasPeers() const override { return false; }
  void Prepare(const int64_t* /*counters*/, const Status& /*own*/, cuda::StepArgs* /*args*/) override {}
  Status TakeFailure() override { return {}; }
  Status RejectionError(const cuda::StepReport& /*report*/, Status own, int64_t /*step*/,
                        bool /*was_replayed*/) override {
    return own;
  }
};

// Several copies, over a communicator that takes device memory. The devices exchange headers and updates in the order
// of the stream. The hosts exchange error texts, only after a step was rejected.
class SeveralDevices final : public DeviceReplicas {
 public:
  // optimizer: from Communicator::TakeOptimizerId(). Allocates the device memory for the exchange of error texts.
  static Status Create(const StepInputs& inputs, std::shared_ptr<Communicator> comm, int32_t optimizer,
                       const cuda::DeviceEngine& engine, const cuda::DeviceStateMemory* memory,
                       std::unique_ptr<DeviceReplicas>* out);

  Status PriorFailure() const override { return rounds_.PriorFailure(); }
  bool HasPeers() const override { return true; }
  void Prepare(const int64_t* counters, const Status& own, cuda::StepArgs* args) override;
  Status TakeFailure() override;
  Status RejectionError(const cuda::StepReport& report, Status own, int64_t step, bool was_replayed) override;

 private:
  SeveralDevices(const StepInputs& inputs, std::shared_ptr<Communicator> comm, int32_t optimizer,
                 const cuda::DeviceStateMemory* memory);
  static int32_t Gather(void* self, void* buffer, int64_t segment_bytes, void* stream);

  StepInputs inputs_;
  Rounds rounds_;
  const cuda::DeviceStateMemory* memory_;
  // Both are stored, because a step may be captured before the error of an earlier step was reported.
  ReplicaInputs step_inputs_;      // of the last step that was not captured
  ReplicaInputs captured_inputs_;  // of the last captured step
  Status own_failure_;             // the error of this rank's host in the last step that was not captured
  Status gather_failure_;          // the failure of a collective of the step that is being enqueued
};

}  // namespace shampoo
