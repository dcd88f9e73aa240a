// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/backend/cuda/device_engine.h"
#include "core/backend/cuda/device_state_memory.h"
#include "core/step/device_ranks.h"

namespace shampoo {

// The other ranks, which make each step together with an optimizer on a device.
class DevicePeers {
 public:
  virtual ~DevicePeers() = default;
  // Returns an error if a collective of these ranks has failed before.
  virtual Status PriorFailure() const = 0;
  // Returns an error if a step cannot be captured over the communicators of these ranks.
  virtual Status CheckCapture() const = 0;
  // Returns whether there are other ranks, which must make the same calls and return the same results.
  virtual bool exist() const = 0;
  // Returns whether other ranks may activate groups of which this rank has no gradient.
  virtual bool activate_groups() const = 0;
  // Fills in the values that the device compares with other ranks, and the functions that exchange them. own: the error
  // of this rank if it cannot make the step. counters: by group. args->captured and args->expected_step must be set.
  virtual void Prepare(const int64_t* counters, const Status& own, cuda::StepArgs* args) = 0;
  // Returns, once, the failure of a collective in the step that was enqueued last.
  virtual Status TakeFailure() = 0;
  // Returns the error of a rejected step. own: the error of this rank's device; step: the largest step counter of any
  // group before the step of the last call; was_replayed: the rejected step is the replay of a captured step.
  virtual Status RejectionError(const cuda::StepReport& report, Status own, int64_t step, bool was_replayed) = 0;
};

// A single rank, which has no peers.
class SingleDevice final : public DevicePeers {
 public:
  Status PriorFailure() const override { return {}; }
  Status CheckCapture() const override { return {}; }
  bool exist() const override { return false; }
  bool activate_groups() const override { return false; }
  void Prepare(const int64_t* /*counters*/, const Status& /*own*/, cuda::StepArgs* /*args*/) override {}
  Status TakeFailure() override { return {}; }
  Status RejectionError(const cuda::StepReport& /*report*/, Status own, int64_t /*step*/,
                        bool /*was_replayed*/) override {
    return own;
  }
};

// Several ranks, which hold copies of the parameters, shards of them, or both. The devices agree on each step in
// exchanges that are part of the step. The hosts exchange error messages, but only after a step was rejected.
class SeveralDevices final : public DevicePeers {
 public:
  // ranks: of one or two communicators, in the order in which they agree: shards before copies. Allocates the device
  // memory for the exchange of error messages over the communicators that take device memory.
  static Status Create(std::vector<std::unique_ptr<DeviceRanks>> ranks, const cuda::DeviceEngine& engine,
                       const cuda::DeviceStateMemory* memory, std::unique_ptr<DevicePeers>* out);

  Status PriorFailure() const override;
  Status CheckCapture() const override;
  bool exist() const override { return true; }
  bool activate_groups() const override;
  void Prepare(const int64_t* counters, const Status& own, cuda::StepArgs* args) override;
  Status TakeFailure() override;
  Status RejectionError(const cuda::StepReport& report, Status own, int64_t step, bool was_replayed) override;

 private:
  SeveralDevices(std::vector<std::unique_ptr<DeviceRanks>> ranks, const cuda::DeviceStateMemory* memory);
  Status AgreedError(const cuda::StepReport& report, Status own, int64_t step, bool was_replayed);
  // The ranks that the report is about.
  const DeviceRanks& RanksOf(const cuda::StepReport& report) const;
  bool AnyFailed() const;
  void AbortAll() const;

  std::vector<std::unique_ptr<DeviceRanks>> ranks_;
  const cuda::DeviceStateMemory* memory_;
  Status own_failure_;  // the error of this rank's host in the last step that was not captured
};

}  // namespace shampoo
