// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Kernels of the agreement of shards. In this exchange, the shard ranks send each other segments (ShardSegments) before
// a step writes anything. All shard ranks then decide in the same way whether to reject or skip the step
// (core/rules/rank_difference.h), and activate the same groups (DeviceGroup::active).
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/backend/cuda/plugin/rank_decision.h"
#include "core/rules/rank_difference.h"

namespace shampoo::cuda {
namespace {

struct WriteShardSegmentBody {
  Tables tables;
  uint64_t scalars_hash;
  int64_t place;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const ShardSegments segments(tables);
    const int64_t own = tables.shard_rank;
    const StepState& state = *tables.state;
    cta.Once([&] {
      ShardHeader& header = segments.HeaderOf(own);
      header.round = {static_cast<int32_t>(CodeOf(state)), FlagsOf(state), place};
      header.hyper_parameters = scalars_hash;
      for (int32_t g = 0; g < tables.group_count; ++g) {
        header.hyper_parameters = MixedWithScalars(header.hyper_parameters, tables.groups[g].settings);
      }
    });
    cta.ForEach(tables.group_count, [&](int64_t g) {
      const DeviceGroup& group = tables.groups[g];
      segments.StepsOf(own)[g] = state.rejected == 0 && group.active != 0 ? group.t : 0;
    });
    cta.ForEach(tables.param_count, [&](int64_t p) {
      const Buffers& buffers = tables.buffers[p];
      segments.GradientsOf(own)[p] = tables.params[p].elements == 0 ? kNoElements
                                     : buffers.grad == nullptr      ? kNoGradient
                                     : buffers.copy == nullptr      ? kGradient
                                                                    : kGradientAndCopy;
    });
  }
};

struct CompareShardSegmentsBody {
  Tables tables;
  int64_t place;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    StepState* const state = tables.state;
    const ShardSegments segments(tables);
    const int64_t world = tables.shard_world;
    const auto reject = [&](int64_t rank, RankDifference difference) {
      cta.Once([&] { RejectWithRank(state, rank, difference, true); });
    };
    int64_t rank = segments.First(cta, [&](const ShardHeader& header) { return header.round.place != place; });
    if (rank < world) return reject(rank, RankDifference::kPlace);
    cta.Once([&] { RecordSteppingRanks(state, world, [&](int64_t of) { return segments.HeaderOf(of).round; }); });
    // If StepState::counted is 2, the step is already rejected, and all ranks know the reason from an earlier exchange.
    if (state->counted == 2) return;
    rank = segments.First(cta, [](const ShardHeader& header) { return header.round.code != 0; });
    if (rank < world) return reject(rank, RankDifference::kFailed);
    const bool exports = segments.HeaderOf(0).round.exports();
    rank = segments.First(cta, [&](const ShardHeader& header) { return header.round.exports() != exports; });
    if (rank < world) return reject(rank, RankDifference::kInputs);
    const uint64_t scalars = segments.HeaderOf(0).hyper_parameters;
    rank = segments.First(cta, [&](const ShardHeader& header) { return header.hyper_parameters != scalars; });
    if (rank < world) return reject(rank, RankDifference::kScalars);
    const auto gradient_differs = [&](int64_t p) {
      return FindGradientDifference(world, [&](int64_t of) { return segments.GradientsOf(of)[p]; }).found();
    };
    if (cta.First(tables.param_count, gradient_differs) < tables.param_count) {
      return reject(0, RankDifference::kInputs);
    }
    const auto step_of = [&](int64_t g) {
      return FindShardStep(world, [&](int64_t of) { return segments.StepsOf(of)[g]; });
    };
    if (cta.First(tables.group_count, [&](int64_t g) { return step_of(g).differing >= 0; }) < tables.group_count) {
      return reject(0, RankDifference::kStep);
    }
    const bool skips =
        segments.First(cta, [](const ShardHeader& header) { return (header.round.flags & kSkipsStep) != 0; }) < world;
    if (skips) cta.Once([&] { SkipStep(state); });
    cta.ForEach(tables.group_count, [&](int64_t g) {
      DeviceGroup& group = tables.groups[g];
      const int64_t t = step_of(g).step;
      if (group.active != 0 || t == 0) return;
      group.active = 1;
      group.t = t;
      group.has_gradients = 1;
      group.is_prepared = 1;
    });
  }
};

}  // namespace

cudaError_t WriteShardSegment(cudaStream_t stream, const Tables& tables, uint64_t scalars_hash, int64_t place) {
  return Launch(stream, 1, WriteShardSegmentBody{tables, scalars_hash, place});
}

cudaError_t CompareShardSegments(cudaStream_t stream, const Tables& tables, int64_t place) {
  return Launch(stream, 1, CompareShardSegmentsBody{tables, place});
}

}  // namespace shampoo::cuda
