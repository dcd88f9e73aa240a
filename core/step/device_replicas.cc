// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/device_replicas.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/comm/agreement.h"

namespace shampoo {
namespace {

// Returns the error of the replica that failed. FetchErrorOfReplicas() adds to the error that the states of other
// replicas have changed. If PlanData::replicas_agree_first() is true, no replica has begun the step, so Agree() calls
// this function instead.
Status FetchErrorBeforeStep(Rounds* rounds, const std::string& own_text) {
  return rounds->FetchError(rounds->FindFailure(), own_text);
}

}  // namespace

DeviceReplicas::DeviceReplicas(const StepInputs& inputs, std::shared_ptr<Communicator> comm, int32_t optimizer,
                               const cuda::DeviceEngine* engine)
    : inputs_(inputs),
      rounds_(std::move(comm), optimizer),
      engine_(engine),
      step_inputs_(inputs.plan),
      captured_inputs_(inputs.plan),
      fetch_error_(inputs.plan.replicas_agree_first() ? FetchErrorBeforeStep : FetchErrorOfReplicas),
      collectives_(rounds_.comm(), engine) {}

int64_t DeviceReplicas::staging_bytes() const {
  return std::max(static_cast<int64_t>(kTextBytes), step_inputs_.bytes()) * comm()->world();
}

void DeviceReplicas::Prepare(const int64_t* counters, cuda::StepArgs* args) {
  collectives_.Begin(args->captured != 0);
  ReplicaInputs& compared = args->captured != 0 ? captured_inputs_ : step_inputs_;
  const bool exports = args->exports != 0;
  compared.Set([&](const Param& param) { return exports || inputs_.buffers.HasGradient(param); }, {}, counters,
               exports ? ReplicaInputs::kExports : ReplicaInputs::kSteps);
  args->gather = collectives_.gather();
  args->inputs_hash = compared.Hash();
  args->place = PlaceOfRound(rounds_.optimizer(), 0);
}

Status DeviceReplicas::Agree(const cuda::StepReport& report, Status own, int64_t step, bool was_replayed) {
  // If report.among_shards is not 0, report.rank and report.difference describe a shard rank. The replicas then only
  // exchange their errors.
  switch (report.among_shards != 0 ? cuda::RankDifference::kFailed : report.difference) {
    case cuda::RankDifference::kStep: {
      std::vector<int64_t> steps;
      SHAMPOO_RETURN_IF_ERROR(AllGatherInts(comm(), step, &steps));
      return StepsDiffer(report.rank, steps[static_cast<size_t>(report.rank)], steps[0]);
    }
    case cuda::RankDifference::kScalars:
      return HyperParametersDiffer(report.rank);
    case cuda::RankDifference::kInputs:
      SHAMPOO_RETURN_IF_ERROR((was_replayed ? captured_inputs_ : step_inputs_).FindDifference(comm()));
      // The inputs that the hosts know are the same. The replicas differ in the blocks with unusable gradients, and
      // only the devices know these blocks.
      return Numeric("the blocks with gradients that are too large or not finite differ between rank ", report.rank,
                     " and rank 0", kParametersUnchanged,
                     "Gradients must be the same on all ranks: average them before a step");
    case cuda::RankDifference::kParameters: {
      const uint64_t* const hashes = engine_->parameter_hashes();
      return FindDifferentParameter(inputs_.plan, comm(), {hashes, hashes + inputs_.plan.params.size()});
    }
    case cuda::RankDifference::kPlace:
    case cuda::RankDifference::kFailed:
    case cuda::RankDifference::kNone:
      break;
  }
  const bool exports = (was_replayed ? captured_inputs_ : step_inputs_).are_of_export();
  SHAMPOO_RETURN_IF_ERROR(rounds_.GatherCodes(own, exports ? kExports : 0));
  return rounds_.FindFailure().found() ? fetch_error_(&rounds_, own.message()) : std::move(own);
}

}  // namespace shampoo
