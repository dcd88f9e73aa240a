// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/device_workspace.h"

#include "core/backend/cuda/device_engine.h"
#include "core/backend/cuda/device_layout.h"
#include "core/comm/segment_header.h"

namespace shampoo::cuda {

int64_t WorkspaceBytes(const PlanData& plan, size_t rank, const std::vector<const Block*>& blocks) {
  std::vector<DeviceSettings> groups;
  for (const Settings& settings : plan.groups) groups.push_back(DeviceSettingsOf(settings));
  PlanCounts counts{static_cast<int64_t>(plan.blocks.size()), static_cast<int64_t>(plan.params.size()),
                    static_cast<int64_t>(plan.groups.size()), 0,
                    plan.placement.replica_world > 1 && plan.groups[0].verify_replicas > 0};
  counts.rounds = plan.rounds_stochastically();
  for (const Block& block : plan.blocks) counts.scan_tiles += TileCount(block.elements);
  // An upper bound: the parts of the parameters that this rank holds have at most as many tiles as the blocks.
  if (counts.verifies) counts.hash_tiles = counts.scan_tiles;
  if (plan.gathers) {
    const SliceCounts& slices = plan.slice_counts_of_rank[rank];
    counts.whole_blocks = counts.blocks;
    counts.slices = slices.slices;
    counts.series = slices.series;
    counts.slice_tiles = slices.elements / kTileElements + slices.slices;  // an upper bound
  }
  const int shards = plan.placement.shard_world;
  const int64_t agreement = shards > 1 ? shards * ShardSegmentBytes(plan.groups.size(), plan.params.size()) : 0;
  // `agreement` is the size of the buffers with which shard ranks agree on a step. The class Plan adds the sizes of the
  // other exchange buffers.
  return LayOutDevice(MakeBatches(blocks, groups.data()), groups.data(), counts, 0).bytes + agreement;
}

}  // namespace shampoo::cuda
