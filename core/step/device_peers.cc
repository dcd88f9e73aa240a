// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/device_peers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/catch_exceptions.h"
#include "core/comm/received.h"

namespace shampoo {

SeveralDevices::SeveralDevices(std::unique_ptr<DeviceReplicas> replicas, std::unique_ptr<DeviceShards> shards,
                               const cuda::DeviceStateMemory* memory)
    : replicas_(std::move(replicas)), shards_(std::move(shards)), memory_(memory) {}

Status SeveralDevices::Create(std::unique_ptr<DeviceReplicas> replicas, std::unique_ptr<DeviceShards> shards,
                              const cuda::DeviceEngine& engine, const cuda::DeviceStateMemory* memory,
                              std::unique_ptr<DevicePeers>* out) {
  std::unique_ptr<SeveralDevices> made(new SeveralDevices(std::move(replicas), std::move(shards), memory));
  int64_t bytes = 0;
  if (made->replicas_ != nullptr) bytes = made->replicas_->staging_bytes();
  if (made->shards_ != nullptr) bytes = std::max(bytes, made->shards_->staging_bytes());
  void* unused = nullptr;
  SHAMPOO_RETURN_IF_ERROR(engine.Staging(bytes, &unused));
  *out = std::move(made);
  return {};
}

std::array<Communicator*, 2> SeveralDevices::comms() const {
  return {replicas_ != nullptr ? replicas_->comm() : nullptr, shards_ != nullptr ? shards_->comm() : nullptr};
}

Status SeveralDevices::PriorFailure() const {
  for (const Communicator* const comm : comms()) {
    if (comm != nullptr) SHAMPOO_RETURN_IF_ERROR(comm->PriorFailure());
  }
  return {};
}

void SeveralDevices::Prepare(const int64_t* counters, const Status& own, cuda::StepArgs* args) {
  if (args->captured == 0) own_failure_ = own.Copy();
  if (replicas_ != nullptr) replicas_->Prepare(counters, args);
  if (shards_ != nullptr) shards_->Prepare(args);
}

Status SeveralDevices::TakeFailure() {
  Status failure;
  if (replicas_ != nullptr) failure = replicas_->TakeFailure();
  if (shards_ != nullptr && failure.ok()) failure = shards_->TakeFailure();
  // A step that cannot be captured fails on all ranks, which continue outside of the capture.
  if (failure.code() == Code::kComm) AbortAll();
  return failure;
}

// Collective: all ranks of both communicators call it in the same step.
Status SeveralDevices::RejectionError(const cuda::StepReport& report, Status own, int64_t step, bool was_replayed) {
  bool is_agreed = false;
  Status error = CatchExceptions([&]() -> Status {
    Status agreed = AgreedError(report, std::move(own), step, was_replayed);
    is_agreed = true;
    return agreed;
  });
  // A rank without memory for the exchanges has left them.
  if (!is_agreed || AnyFailed()) AbortAll();
  return error;
}

bool SeveralDevices::AnyFailed() const {
  const auto all = comms();
  return std::any_of(all.begin(), all.end(),
                     [](const Communicator* comm) { return comm != nullptr && comm->failed(); });
}

// The ranks of a communicator would wait for a rank that has failed on the other one.
void SeveralDevices::AbortAll() const {
  for (Communicator* const comm : comms()) {
    if (comm != nullptr && !comm->failed()) comm->Abort();
  }
}

Status SeveralDevices::AgreedError(const cuda::StepReport& report, Status own, int64_t step, bool was_replayed) {
  const std::unique_ptr<Staging> staging = memory_->MakeStaging(memory_->stream());
  std::array<std::optional<StagingScope>, 2> staged;
  for (size_t i = 0; i < staged.size(); ++i) {
    if (comms()[i] != nullptr) staged[i].emplace(comms()[i], staging.get());
  }
  if (!was_replayed && !own_failure_.ok()) own = own_failure_.Copy();
  const bool among_shards = report.among_shards != 0;
  if (report.difference == cuda::RankDifference::kPlace) {
    // The other ranks may wait in a later exchange of a step that this rank has completed.
    AbortAll();
    return CommFailed(among_shards ? "shard rank " : "rank ", report.rank,
                      " is at an exchange of another optimizer, or at another exchange of optimizer ",
                      among_shards ? shards_->optimizer() : replicas_->optimizer(), kStepInTheSameOrder);
  }
  // The same sequence as on the CPU: the shards of this copy, then the copies of this shard, then the shards again,
  // because the copies of another shard may differ.
  Status error = std::move(own);
  if (shards_ != nullptr) error = shards_->Agree(report, std::move(error), was_replayed);
  if (replicas_ != nullptr && !AnyFailed()) {
    error = replicas_->Agree(report, std::move(error), step, was_replayed);
    if (shards_ != nullptr && !AnyFailed()) error = shards_->AgreeAgain(std::move(error), was_replayed);
  }
  if (!error.ok()) return error;
  AbortAll();
  const Communicator& comm = *(among_shards ? shards_->comm() : replicas_->comm());
  return CommFailed(comm.rank_name(), " ", comm.rank(), " received from ", comm.rank_name(), " ", report.rank,
                    " that it rejected a step, but then no error; expected one", kCheckRanks);
}

}  // namespace shampoo
