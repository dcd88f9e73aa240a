// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/call.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "core/base/amount.h"

namespace shampoo {

namespace {

const Optimizer* FirstOnDevice(const CheckpointCall& call) {
  const auto found = std::find_if(call.optimizers.begin(), call.optimizers.end(),
                                  [](const Optimizer* optimizer) { return optimizer->on_device(); });
  return found == call.optimizers.end() ? nullptr : *found;
}

}  // namespace

WorldStaging::WorldStaging(const CheckpointCall& call) {
  const Optimizer* const optimizer = FirstOnDevice(call);
  if (call.world == nullptr || !call.world->takes_device_memory() || optimizer == nullptr) return;
  staging_ = optimizer->MakeStaging(call.stream);
  scope_.emplace(call.world, staging_.get());
}

Status CheckWorld(const CheckpointCall& call) {
  if (call.world == nullptr) return {};
  if (call.world->takes_device_memory() && FirstOnDevice(call) == nullptr) {
    return Unsupported(
        "world takes memory of a GPU, and none of the optimizers is on one: give a communicator whose device_type is "
        "SHAMPOO_CPU");
  }
  return call.world->failed() ? call.world->FailedBefore() : Status();
}

Status CheckCall(const CheckpointCall& call) {
  if (!call.given.ok()) return call.given.Copy();
  if (call.stream != nullptr && FirstOnDevice(call) == nullptr)
    return Invalid("stream is not NULL: on the CPU there is none");
  std::set<std::string_view> names;
  int64_t world = 1;
  for (Optimizer* optimizer : call.optimizers) {
    SHAMPOO_RETURN_IF_ERROR(optimizer->UseState(call.stream));
    SHAMPOO_RETURN_IF_ERROR(optimizer->FetchSteps());
    const PlanData& plan = optimizer->plan();
    world = std::max(world, int64_t{plan.placement.replica_world} * plan.placement.shard_world);
    for (const Param& param : plan.params) {
      if (names.insert(param.desc.name).second) continue;
      return Invalid("parameter \"", param.desc.name,
                     "\" is in two of the optimizers, or one was given twice: names are unique in a checkpoint");
    }
  }
  const int64_t given = call.world != nullptr ? call.world->world() : 1;
  if (given >= world) return {};
  return Invalid(call.world == nullptr ? "world is NULL" : Cat("world has ", CountText(given, "rank")),
                 ", and an optimizer has ", world, " replicas and shards: give a communicator of all ranks of the job");
}

}  // namespace shampoo
