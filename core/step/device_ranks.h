// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/backend/cuda/interface.h"
#include "core/comm/communicator.h"

namespace shampoo {

// The ranks of one communicator of an optimizer on a device. All of them make each step together.
class DeviceRanks {
 public:
  virtual ~DeviceRanks() = default;
  virtual Communicator* comm() const = 0;
  // Returns the number that this optimizer got from Communicator::TakeOptimizerId().
  virtual int32_t optimizer() const = 0;
  // Returns the kind of the ranks, for error messages: "shard" or "replica".
  virtual const char* kind() const = 0;
  // Returns how many bytes of device memory an exchange of error messages needs if the communicator takes device
  // memory.
  virtual int64_t staging_bytes() const = 0;

  // The functions from here to TakeFailure() mean the same as in DevicePeers. The implementations in this class suit
  // replicas, which have the same gradients and know of the same skipped updates.
  virtual bool is_skipped_update_known() const { return true; }
  virtual bool IsStepKnown(bool /*has_gradient*/) const { return true; }
  virtual const int64_t* CountedSteps(const int64_t* expected, const int64_t* /*reported*/) const { return expected; }
  virtual void Prepare(const int64_t* counters, cuda::StepArgs* args) = 0;
  virtual Status TakeFailure() = 0;
  // Returns whether these ranks can still reject the step that was enqueued last. This is possible until this rank
  // joins the exchange in which the ranks decide to make the step.
  virtual bool CanStillReject() const = 0;
  // See DeviceCollectives::SkipJoined().
  virtual void SkipJoinedCollectives() = 0;
  // Agrees with the other ranks on the error of a rejected step. Returns this error, or success if no rank has an
  // error. own: this rank's error. step and was_replayed: as in DevicePeers::RejectionError(). Collective.
  virtual Status Agree(const cuda::StepReport& report, Status own, int64_t step, bool was_replayed) = 0;
  // Called only if an optimizer has two communicators, and only on the object of the shard communicator. own: the error
  // or success on which the replicas of this rank's shard have agreed. Returns `own` if it is an error, otherwise the
  // error of another shard rank or success. Collective.
  virtual Status AgreeAgain(Status own, bool /*was_replayed*/) { return own; }
};

}  // namespace shampoo
