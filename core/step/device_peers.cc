// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/device_peers.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/base/catch_exceptions.h"
#include "core/base/text.h"
#include "core/comm/received.h"
#include "core/comm/round.h"
#include "core/config/keys.h"
#include "core/rules/basis.h"

namespace shampoo {
namespace {

// Fails if a group has a method that works in eigenbases, such as soap. A step that refreshes eigenbases cannot be
// captured, and all ranks must reject the same captures. However, a rank does not know whether a step refreshes
// eigenbases of other ranks' blocks. Therefore several ranks cannot capture any step with such a group.
Status CheckBasisCapture(const PlanData& plan) {
  for (const Settings& settings : plan.groups) {
    if (!UsesEigenbasis(settings.method)) continue;
    return WrongState("the stream is captured, and a step of several ranks with method=", NameOf(settings.method),
                      " cannot be captured: expected one rank. Call shampoo_optimizer_step outside of a capture");
  }
  return {};
}

}  // namespace

Status DevicePeers::AbortOnError(Status status) {
  if (!status.ok()) Abort(status);
  return status;
}

SeveralDevices::SeveralDevices(std::vector<std::unique_ptr<DeviceRanks>> ranks, const cuda::DeviceStateMemory* memory)
    : ranks_(std::move(ranks)), memory_(memory) {}

Status SeveralDevices::Create(std::vector<std::unique_ptr<DeviceRanks>> ranks, const cuda::DeviceEngine& engine,
                              const cuda::DeviceStateMemory* memory, std::unique_ptr<DevicePeers>* out) {
  std::unique_ptr<SeveralDevices> made(new SeveralDevices(std::move(ranks), memory));
  int64_t bytes = 0;
  for (const auto& ranks_here : made->ranks_) {
    if (ranks_here->comm()->takes_device_memory()) bytes = std::max(bytes, ranks_here->staging_bytes());
  }
  if (bytes > 0) {
    void* unused = nullptr;
    SHAMPOO_RETURN_IF_ERROR(engine.Staging(bytes, &unused));
  }
  *out = std::move(made);
  return {};
}

Status SeveralDevices::PriorFailure() const {
  for (const auto& ranks : ranks_) SHAMPOO_RETURN_IF_ERROR(ranks->comm()->PriorFailure());
  return {};
}

Status SeveralDevices::CheckCapture(const PlanData& plan) const {
  for (const auto& ranks : ranks_) {
    const Communicator& comm = *ranks->comm();
    if (comm.takes_device_memory()) continue;
    return WrongState("the stream is captured, and ", ranks->kind(),
                      "_comm takes host memory, so the host takes part in its collectives: expected a communicator "
                      "whose device_type is SHAMPOO_CUDA and whose functions only enqueue work in the stream, such as "
                      "those of NCCL. Call shampoo_optimizer_step outside of a capture, or use another communicator");
  }
  return CheckBasisCapture(plan);
}

bool SeveralDevices::is_skipped_update_known() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& ranks) { return ranks->is_skipped_update_known(); });
}

bool SeveralDevices::IsStepKnown(bool has_gradient) const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [has_gradient](const auto& ranks) { return ranks->IsStepKnown(has_gradient); });
}

const int64_t* SeveralDevices::CountedSteps(const int64_t* expected, const int64_t* reported) const {
  const int64_t* counted = expected;
  for (const auto& ranks : ranks_) counted = ranks->CountedSteps(counted, reported);
  return counted;
}

void SeveralDevices::Prepare(const int64_t* counters, const Status& own, cuda::StepArgs* args) {
  if (args->captured == 0) own_failure_ = CopyOf(own);
  for (const auto& ranks : ranks_) ranks->Prepare(counters, args);
}

Status SeveralDevices::TakeFailure() {
  Status failure;
  for (const auto& ranks : ranks_) {
    Status failure_here = ranks->TakeFailure();
    if (failure.ok()) failure = std::move(failure_here);
  }
  // If a collective cannot be captured, the code of its error is not kComm. The step then fails on all ranks, and all
  // ranks can continue outside of the capture.
  if (failure.code() == Code::kComm) Abort(failure);
  return failure;
}

// Collective: all ranks of all communicators call this function in the same step.
Status SeveralDevices::RejectionError(const cuda::StepReport& report, Status own, int64_t step, bool was_replayed) {
  bool is_agreed = false;
  Status error = CatchExceptions([&]() -> Status {
    Status agreed = AgreedError(report, std::move(own), step, was_replayed);
    is_agreed = true;
    return agreed;
  });
  // If is_agreed is false, this rank has left exchanges in which the other ranks may still wait, for example because it
  // ran out of memory.
  if (!is_agreed || AnyFailed()) Abort(error);
  return error;
}

bool SeveralDevices::AnyFailed() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& ranks) { return ranks->comm()->failed(); });
}

// Aborts all communicators. If one were left out, its ranks would wait for this rank, which has failed.
void SeveralDevices::Abort(const Status& error) {
  for (const auto& ranks : ranks_) {
    if (!ranks->comm()->failed()) ranks->comm()->Abort(error);
  }
}

bool SeveralDevices::TryToRejoin() {
  const auto can_reject = [](const auto& ranks) { return !ranks->comm()->failed() && ranks->CanStillReject(); };
  if (!std::all_of(ranks_.begin(), ranks_.end(), can_reject)) return false;
  for (const auto& ranks : ranks_) ranks->SkipJoinedCollectives();
  return true;
}

const DeviceRanks& SeveralDevices::RanksOf(const cuda::StepReport& report) const {
  // If there are two communicators, that of the shards is first in ranks_, and that of the replicas is last.
  return report.among_shards == 0 ? *ranks_.back() : *ranks_.front();
}

Status SeveralDevices::AgreedError(const cuda::StepReport& report, Status own, int64_t step, bool was_replayed) {
  const std::unique_ptr<Staging> staging = memory_->MakeStaging(memory_->stream());
  std::array<std::optional<StagingScope>, 2> staged;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    staged.at(i).emplace(ranks_[i]->comm(), staging.get());
  }
  if (!was_replayed && !own_failure_.ok()) own = own_failure_.Copy();
  const DeviceRanks& reported = RanksOf(report);
  const Communicator& comm = *reported.comm();
  if (report.difference == cuda::RankDifference::kPlace) {
    // The other ranks may wait in a later exchange, which this rank will not join, because its step has ended.
    return AbortOnError(CommFailed(comm.rank_name(), " ", report.rank, " and ", comm.rank_name(), " ", comm.rank(),
                                   " are at different exchanges, either of different optimizers or of optimizer ",
                                   reported.optimizer(), kStepInTheSameOrder));
  }
  // The ranks agree in the same sequence as on the CPU: first the shard ranks of this replica, then the replicas of
  // this shard, then the shard ranks again, because the replicas of another shard may have found an error.
  Status error = std::move(own);
  for (const auto& ranks : ranks_) {
    if (!AnyFailed()) error = ranks->Agree(report, std::move(error), step, was_replayed);
  }
  for (size_t i = 0; i + 1 < ranks_.size(); ++i) {
    if (!AnyFailed()) error = ranks_[i]->AgreeAgain(std::move(error), was_replayed);
  }
  if (!error.ok()) return error;
  return AbortOnError(CommFailed(comm.rank_name(), " ", report.rank, " reported a rejected step to ", comm.rank_name(),
                                 " ", comm.rank(), ", but then sent no error; expected an error", kCheckRanks));
}

}  // namespace shampoo
