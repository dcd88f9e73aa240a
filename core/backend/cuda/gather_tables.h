// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/backend/cuda/device_tables.h"
#include "core/backend/cuda/interface.h"
#include "core/plan/gather_passes.h"

namespace shampoo::cuda {

// The tables that a device needs with shard_mode gather. They are made from the passes of the plan (PlanGatherPasses).
// A step collects the blocks of all buckets, and later delivers their updates bucket by bucket.
class GatherTables {
 public:
  // base: the first offset in the exchange buffers after the segments of the replicas and of the agreement.
  GatherTables(const PlanData& plan, bool has_all_to_all, int64_t base);
  GatherTables(const GatherTables&) = delete;
  GatherTables& operator=(const GatherTables&) = delete;

  const GatherView& view() const { return view_; }

 private:
  // The offsets of the data in one exchange of a bucket.
  class Places;
  void AddBucket(const PlanData& plan, size_t bucket);
  void AddSlice(const Block& block, const DeviceSlice& slice, const Region& region);
  TileRange TilesFrom(size_t first) const {
    return {static_cast<int64_t>(first), static_cast<int64_t>(tiles_.size() - first)};
  }

  std::vector<GatherPass> passes_;
  bool has_all_to_all_;
  // Offsets of the buffers for held slices, owned slices and whole blocks. With an all-gather, held and owned slices
  // share one buffer. There are several sets of the buffers for slices (PlanView::exchange_sets).
  int64_t held_at_, owned_at_, whole_at_;
  std::vector<GatherBucket> buckets_;
  std::vector<std::vector<GatherCopy>> copies_;  // by bucket
  std::vector<DeviceSlice> slices_;
  std::vector<RunSeries> series_;
  std::vector<DeviceTile> tiles_;
  std::vector<int64_t> gradient_at_, param_at_;  // by block
  GatherView view_{};
};

}  // namespace shampoo::cuda
