// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/device_shards.h"

#include <algorithm>
#include <utility>

#include "core/comm/agreement.h"

namespace shampoo {

DeviceShards::DeviceShards(const StepInputs& inputs, const std::shared_ptr<Communicator>& comm, int32_t optimizer)
    : inputs_(inputs), step_(inputs, comm, optimizer), captured_(inputs, comm, optimizer) {}

int64_t DeviceShards::staging_bytes() const {
  const int64_t segment = ShardSegmentBytes(inputs_.plan.groups.size(), inputs_.plan.params.size());
  return std::max(static_cast<int64_t>(kTextBytes), segment) * comm()->world();
}

int32_t DeviceShards::Gather(void* self, void* buffer, int64_t segment_bytes, void* stream) {
  auto* const shards = static_cast<DeviceShards*>(self);
  shards->gather_failure_ = shards->comm()->GatherInStream(buffer, segment_bytes, stream, shards->is_captured_);
  return shards->gather_failure_.ok() ? 0 : 1;
}

int32_t DeviceShards::AllToAll(void* self, const void* send, const size_t* send_bytes, void* recv,
                               const size_t* recv_bytes, void* stream) {
  auto* const shards = static_cast<DeviceShards*>(self);
  const auto world = static_cast<size_t>(shards->comm()->world());
  shards->gather_failure_ = shards->comm()->AllToAllInStream(send, {send_bytes, world}, recv, {recv_bytes, world},
                                                             stream, shards->is_captured_);
  return shards->gather_failure_.ok() ? 0 : 1;
}

void DeviceShards::Prepare(const int64_t* /*counters*/, cuda::StepArgs* args) {
  is_captured_ = args->captured != 0;
  RoundsOf(is_captured_).SetInputs({args->expected_step, inputs_.plan.groups.size()});
  args->shard_gather = {this, Gather};
  args->shard_all_to_all = {this, AllToAll};
  args->shard_place = PlaceOfRound(optimizer(), ShardRounds::kRound);
}

Status DeviceShards::TakeFailure() { return std::exchange(gather_failure_, Status()); }

Status DeviceShards::Agree(const cuda::StepReport& report, Status own, int64_t /*step*/, bool was_replayed) {
  Status agreed = RoundsOf(was_replayed).AgreeOnError(std::move(own));
  // Only the devices can compare scalars that are bound in device memory.
  const bool scalars_differ = report.among_shards != 0 && report.difference == cuda::RankDifference::kScalars;
  return agreed.ok() && scalars_differ ? ShardHyperParametersDiffer(report.rank) : std::move(agreed);
}

Status DeviceShards::AgreeAgain(Status own, bool was_replayed) {
  return RoundsOf(was_replayed).AgreeAgain(std::move(own));
}

}  // namespace shampoo
