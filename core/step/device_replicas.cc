// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/device_replicas.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/comm/agreement.h"
#include "core/comm/received.h"
#include "core/step/replica_inputs.h"

namespace shampoo {

SeveralDevices::SeveralDevices(const StepInputs& inputs, std::shared_ptr<Communicator> comm, int32_t optimizer,
                               const cuda::DeviceStateMemory* memory)
    : inputs_(inputs),
      rounds_(std::move(comm), optimizer),
      memory_(memory),
      step_inputs_(inputs.plan),
      captured_inputs_(inputs.plan) {}

Status SeveralDevices::Create(const StepInputs& inputs, std::shared_ptr<Communicator> comm, int32_t optimizer,
                              const cuda::DeviceEngine& engine, const cuda::DeviceStateMemory* memory,
                              std::unique_ptr<DeviceReplicas>* out) {
  std::unique_ptr<SeveralDevices> made(new SeveralDevices(inputs, std::move(comm), optimizer, memory));
  const int64_t segment = std::max(static_cast<int64_t>(kTextBytes), made->step_inputs_.bytes());
  void* unused = nullptr;
  SHAMPOO_RETURN_IF_ERROR(engine.Staging(segment * inputs.plan.placement.replica_world, &unused));
  *out = std::move(made);
  return {};
}

int32_t SeveralDevices::Gather(void* self, void* buffer, int64_t segment_bytes, void* stream) {
  auto* const replicas = static_cast<SeveralDevices*>(self);
  replicas->gather_failure_ = replicas->rounds_.comm()->GatherInStream(buffer, segment_bytes, stream);
  return replicas->gather_failure_.ok() ? 0 : 1;
}

void SeveralDevices::Prepare(const int64_t* counters, const Status& own, cuda::StepArgs* args) {
  const bool captured = args->captured != 0;
  if (!captured) own_failure_ = own.Copy();
  ReplicaInputs& compared = captured ? captured_inputs_ : step_inputs_;
  compared.Set([&](const Param& param) { return inputs_.buffers.HasGradient(param); }, {}, counters, false);
  args->gather = {this, Gather};
  args->inputs_hash = compared.Hash();
  args->scalars_hash = inputs_.state.hyper_parameters().Hash(false);
  args->place = PlaceOfRound(rounds_.optimizer(), 0);
}

Status SeveralDevices::TakeFailure() { return std::exchange(gather_failure_, Status()); }

// Collective: all ranks call it in the same step.
Status SeveralDevices::RejectionError(const cuda::StepReport& report, Status own, int64_t step, bool was_replayed) {
  Communicator* const comm = rounds_.comm();
  const std::unique_ptr<Staging> staging = memory_->MakeStaging(memory_->stream());
  const StagingScope staged(comm, staging.get());
  if (!was_replayed && !own_failure_.ok()) own = own_failure_.Copy();
  switch (report.difference) {
    case cuda::RankDifference::kPlace:
      // The other ranks may wait in a later exchange of a step that this rank has completed.
      comm->Abort();
      return CommFailed(
          "rank ", report.rank, " is at an exchange of another optimizer, or at a different one of optimizer ",
          rounds_.optimizer(),
          ", counted from 0 in the order of create: optimizers that share ranks must be stepped in the same order on "
          "all of them");
    case cuda::RankDifference::kStep: {
      std::vector<int64_t> steps;
      SHAMPOO_RETURN_IF_ERROR(AllGatherInts(comm, step, &steps));
      return StepsDiffer(report.rank, steps[static_cast<size_t>(report.rank)], steps[0]);
    }
    case cuda::RankDifference::kScalars:
      return HyperParametersDiffer(report.rank);
    case cuda::RankDifference::kInputs:
      SHAMPOO_RETURN_IF_ERROR((was_replayed ? captured_inputs_ : step_inputs_).FindDifference(comm));
      // The hosts' inputs are the same: only the devices know which blocks have an unusable gradient.
      return Numeric("rank ", report.rank, " finds different blocks than rank 0 with a gradient that is not finite",
                     kParametersUnchanged, "Gradients must be the same on all ranks: average them before a step");
    case cuda::RankDifference::kFailed:
    case cuda::RankDifference::kNone:
      break;
  }
  SHAMPOO_RETURN_IF_ERROR(rounds_.GatherCodes(own));
  if (rounds_.FindFailure().found()) return FetchErrorOfReplicas(&rounds_, own.message());
  comm->Abort();
  return CommFailed(comm->rank_name(), " ", comm->rank(), " received from ", comm->rank_name(), " ", report.rank,
                    " that it rejected a step, but then no error; expected one", kCheckRanks);
}

}  // namespace shampoo
