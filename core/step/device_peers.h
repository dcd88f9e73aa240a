// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/backend/cuda/device_engine.h"
#include "core/backend/cuda/device_state_memory.h"
#include "core/plan/plan.h"
#include "core/step/device_ranks.h"

namespace shampoo {

// The other ranks that make each step together with this rank's optimizer, which is on a device. A step is captured if
// it is recorded into a CUDA graph. The report of a step is what the device reports to the host about the step.
class DevicePeers {
 public:
  virtual ~DevicePeers() = default;
  // Returns an error if a collective over a communicator of these ranks failed in an earlier call.
  virtual Status PriorFailure() const = 0;
  // Returns an error if a step of the plan cannot be captured together with these ranks.
  virtual Status CheckCapture(const PlanData& plan) const = 0;
  // Returns whether a step may return the error of an earlier step. All ranks must return this error from the same
  // call. During a capture, the host does not wait for the report of the earlier step, so the ranks may know of
  // different errors.
  virtual bool CanReturnEarlierErrors(bool captured) const = 0;
  // Returns whether every rank knows of each skipped update, so that all ranks return the same error for the update.
  virtual bool is_skipped_update_known() const = 0;
  // Returns whether a rank that cannot make a step joins the step to report its error. All ranks then return this
  // error.
  virtual bool CanReportFailure(bool captured) const = 0;
  // Returns whether this rank knows, before it has the report of a step, whether the step advances the step counter of
  // a group. Otherwise, only the report says whether another rank had a gradient of the group. has_gradient: whether
  // this rank has a gradient of the group.
  virtual bool IsStepKnown(bool has_gradient) const = 0;
  // Returns, by group, the step counter after the last step, in the format of Table::counted_steps
  // (core/backend/cuda/interface.h). expected: by group, the step number that this rank's host expected. reported: the
  // result of Table::counted_steps.
  virtual const int64_t* CountedSteps(const int64_t* expected, const int64_t* reported) const = 0;
  // Returns whether another rank may reject a step after this rank has updated its blocks.
  virtual bool CanRejectLate() const = 0;
  // Returns whether shampoo_optimizer_status() waits for the report of the last step even if its argument `wait` is 0.
  // All ranks then have the same report.
  virtual bool has_to_await_reports() const = 0;
  // Sets the members of *args that the device compares with other ranks, and the functions that exchange these values.
  // counters: the step counters of groups. own: the error of this rank if it cannot make the step. args->captured,
  // args->exports and args->expected_step must be set.
  virtual void Prepare(const int64_t* counters, const Status& own, cuda::StepArgs* args) = 0;
  // Returns the failure of a collective in the step that was enqueued last, and clears it.
  virtual Status TakeFailure() = 0;
  // Call if a step could not be enqueued. Returns false if the ranks can no longer reject the step. If the result is
  // true, enqueue the step again to report the error. This second attempt skips the collectives that this rank has
  // already joined.
  virtual bool TryToRejoin() = 0;
  // Aborts the communicators. Call if this rank has failed and cannot report its error to the other ranks in a step.
  virtual void Abort(const Status& error) = 0;
  // Returns `status`. If it is an error, first aborts the communicators.
  Status AbortOnError(Status status);
  // Returns the error that all ranks return for a rejected step. own: the error that this rank's device found. step:
  // the largest step counter, before the last enqueued step, among the groups that make that step. After an export: the
  // largest step counter of all groups. was_replayed: whether the rejected step was the replay of a captured step.
  virtual Status RejectionError(const cuda::StepReport& report, Status own, int64_t step, bool was_replayed) = 0;
};

// A single rank, which has no peers.
class SingleDevice final : public DevicePeers {
 public:
  Status PriorFailure() const override { return {}; }
  Status CheckCapture(const PlanData& /*plan*/) const override { return {}; }
  bool CanReturnEarlierErrors(bool /*captured*/) const override { return true; }
  bool is_skipped_update_known() const override { return true; }
  bool CanReportFailure(bool /*captured*/) const override { return false; }
  bool IsStepKnown(bool /*has_gradient*/) const override { return true; }
  const int64_t* CountedSteps(const int64_t* expected, const int64_t* /*reported*/) const override { return expected; }
  bool CanRejectLate() const override { return false; }
  bool has_to_await_reports() const override { return false; }
  void Prepare(const int64_t* /*counters*/, const Status& /*own*/, cuda::StepArgs* /*args*/) override {}
  Status TakeFailure() override { return {}; }
  bool TryToRejoin() override { return false; }
  void Abort(const Status& /*error*/) override {}
  Status RejectionError(const cuda::StepReport& /*report*/, Status own, int64_t /*step*/,
                        bool /*was_replayed*/) override {
    return own;
  }
};

// Several ranks: replicas, shards, or both. The devices agree on each step in exchanges that are part of the step. The
// hosts exchange error messages, but only after a step was rejected.
class SeveralDevices final : public DevicePeers {
 public:
  // ranks: one element for each communicator. If there are shards and replicas, the shards come first, because they
  // agree first. Allocates the device memory in which error messages are exchanged over communicators that take device
  // memory.
  static Status Create(std::vector<std::unique_ptr<DeviceRanks>> ranks, const cuda::DeviceEngine& engine,
                       const cuda::DeviceStateMemory* memory, std::unique_ptr<DevicePeers>* out);

  Status PriorFailure() const override;
  Status CheckCapture(const PlanData& plan) const override;
  bool CanReturnEarlierErrors(bool captured) const override { return !captured; }
  bool is_skipped_update_known() const override;
  bool CanReportFailure(bool captured) const override { return !captured; }
  bool IsStepKnown(bool has_gradient) const override;
  const int64_t* CountedSteps(const int64_t* expected, const int64_t* reported) const override;
  bool CanRejectLate() const override { return true; }
  bool has_to_await_reports() const override { return true; }
  void Prepare(const int64_t* counters, const Status& own, cuda::StepArgs* args) override;
  Status TakeFailure() override;
  bool TryToRejoin() override;
  void Abort(const Status& error) override;
  Status RejectionError(const cuda::StepReport& report, Status own, int64_t step, bool was_replayed) override;

 private:
  SeveralDevices(std::vector<std::unique_ptr<DeviceRanks>> ranks, const cuda::DeviceStateMemory* memory);
  Status AgreedError(const cuda::StepReport& report, Status own, int64_t step, bool was_replayed);
  // Returns the ranks (shards or replicas) to which the members `rank` and `difference` of the report refer.
  const DeviceRanks& RanksOf(const cuda::StepReport& report) const;
  bool AnyFailed() const;

  std::vector<std::unique_ptr<DeviceRanks>> ranks_;
  const cuda::DeviceStateMemory* memory_;
  Status own_failure_;  // the error of this rank's host in the last step that was not captured
};

}  // namespace shampoo
