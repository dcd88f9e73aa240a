// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/backend/cuda/device_tables.h"
#include "core/backend/cuda/interface.h"
#include "core/plan/gather_passes.h"

namespace shampoo::cuda {

// The tables that a device needs with shard_mode=gather. They describe the exchanges of core/plan/gather_passes.h. A
// step collects the blocks of all buckets, and later delivers the updates of these blocks bucket by bucket.
class GatherTables {
 public:
  // base: the offset, in the exchange buffers, of the memory for gathered blocks. The segments for the exchanges
  // between replicas and for the agreement of shards (PlanView) are before this offset.
  GatherTables(const PlanData& plan, bool has_all_to_all, int64_t base);
  GatherTables(const GatherTables&) = delete;
  GatherTables& operator=(const GatherTables&) = delete;

  const GatherView& view() const { return view_; }

 private:
  // Computes where the data of one exchange are in the exchange buffers.
  class Places;
  void AddBucket(const PlanData& plan, size_t bucket);
  void AddSlice(const Block& block, const DeviceSlice& slice, const Region& region);
  TileRange TilesFrom(size_t first) const {
    return {static_cast<int64_t>(first), static_cast<int64_t>(tiles_.size() - first)};
  }

  std::vector<GatherPass> passes_;
  bool has_all_to_all_;
  // Offsets, in the exchange buffers, of three areas: for the slices that this rank holds, for the slices of blocks
  // that it owns, and for whole blocks. With an all-gather, all slices share one area. There are
  // PlanView::exchange_sets sets of the areas for slices.
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
