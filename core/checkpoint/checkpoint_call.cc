// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/checkpoint_call.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "core/base/amount.h"

namespace shampoo {

Status WorldStaging::Create(const CheckpointCall& call) {
  if (call.world == nullptr) return {};
  if (call.world->takes_device_memory()) {
    for (const OptimizerState* optimizer : call.optimizers) {
      if (staging_ == nullptr) staging_ = optimizer->memory().MakeStaging(call.stream);
    }
    if (staging_ == nullptr) {
      return Unsupported(
          "world takes buffers in GPU memory, but no optimizer of this rank is on a GPU: pass a communicator whose "
          "device_type is SHAMPOO_CPU");
    }
    scope_.emplace(call.world, staging_.get());
  }
  return call.world->PriorFailure();
}

Status CheckCall(const CheckpointCall& call) {
  if (!call.caller_status.ok()) return call.caller_status.Copy();
  const auto check_stream = [&](const OptimizerState* optimizer) {
    return optimizer->memory().CheckStream(call.stream);
  };
  // At least one optimizer must accept the stream. An optimizer on the CPU accepts only nullptr.
  const bool any_takes_stream =
      std::any_of(call.optimizers.begin(), call.optimizers.end(),
                  [&](const OptimizerState* optimizer) { return check_stream(optimizer).ok(); });
  if (!call.optimizers.empty() && !any_takes_stream) return check_stream(call.optimizers[0]);
  std::set<std::string_view> names;
  int64_t world = 1;
  for (OptimizerState* optimizer : call.optimizers) {
    SHAMPOO_RETURN_IF_ERROR(optimizer->FinishSteps(call.stream));
    const PlanData& plan = optimizer->plan();
    world = std::max(world, int64_t{plan.placement.replica_world} * plan.placement.shard_world);
    for (const Param& param : plan.params) {
      if (names.insert(param.desc.name).second) continue;
      return Invalid(
          "parameter \"", param.desc.name,
          "\" is in two optimizers of this rank, or one optimizer was passed twice: give the parameters of a rank "
          "different names, and pass each optimizer once");
    }
  }
  const int64_t ranks = call.world != nullptr ? call.world->world() : 1;
  if (ranks >= world) return {};
  return Invalid(call.world == nullptr ? "world is NULL" : Cat("world has ", CountText(ranks, "rank")),
                 ", but an optimizer has ", world,
                 " ranks (replicas times shards): pass a communicator of all ranks of the job");
}

}  // namespace shampoo
