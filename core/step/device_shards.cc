// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/device_shards.h"

#include <algorithm>
#include <utility>

#include "core/comm/agreement.h"

namespace shampoo {

DeviceShards::DeviceShards(const StepInputs& inputs, const std::shared_ptr<Communicator>& comm, int32_t optimizer,
                           const cuda::DeviceEngine* engine)
    : inputs_(inputs),
      step_(inputs, comm, optimizer, BoundScalars::kOnDevice),
      captured_(inputs, comm, optimizer, BoundScalars::kOnDevice),
      collectives_(comm.get(), engine) {}

int64_t DeviceShards::staging_bytes() const {
  const int64_t segment = ShardSegmentBytes(inputs_.plan.groups.size(), inputs_.plan.params.size());
  return std::max(static_cast<int64_t>(kTextBytes), segment) * comm()->world();
}

void DeviceShards::Prepare(const int64_t* /*counters*/, cuda::StepArgs* args) {
  collectives_.Begin(args->captured != 0);
  ShardRounds& rounds = RoundsOf(args->captured != 0);
  if (args->exports != 0) {
    rounds.BeginExport();
  } else {
    rounds.SetInputs({args->expected_step, inputs_.plan.groups.size()});
  }
  args->shard_gather = collectives_.gather();
  args->shard_all_to_all = collectives_.all_to_all();
  args->shard_place = PlaceOfRound(optimizer(), ShardRounds::kRound);
}

bool DeviceShards::CanStillReject() const {
  // With gathered blocks, a step makes an agreement on the gradients, then one exchange per bucket (owners collect
  // their blocks), then an agreement on the step. Without gathered blocks, a step makes one agreement. With several
  // replicas, one more agreement follows an exchange between replicas. If a step has only one agreement, it cannot be
  // rejected after this agreement. Otherwise, it cannot be rejected after the second agreement: to report an error, the
  // host enqueues the step again. The repeated step skips both agreements, but needs the results of the first, which
  // the second has overwritten.
  const PlanData& plan = inputs_.plan;
  const auto collects = static_cast<int64_t>(plan.gathers ? plan.bucket_count : 0);
  const int64_t before_last = plan.gathers ? 1 + collects : plan.placement.replica_world > 1 ? 1 : 0;
  return collectives_.joined() <= before_last && !collectives_.has_lost_data();
}

Status DeviceShards::Agree(const cuda::StepReport& report, Status own, int64_t /*step*/, bool was_replayed) {
  const bool scalars_differ = report.among_shards != 0 && report.difference == cuda::RankDifference::kScalars;
  return RoundsOf(was_replayed).AgreeOnError(std::move(own), scalars_differ ? report.rank : 0);
}

Status DeviceShards::AgreeAgain(Status own, bool was_replayed) {
  return RoundsOf(was_replayed).AgreeAgain(std::move(own));
}

}  // namespace shampoo
