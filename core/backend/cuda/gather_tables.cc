// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/gather_tables.h"

#include <numeric>

#include "core/backend/cuda/block_batches.h"
#include "core/base/at.h"
#include "core/plan/assignment.h"

namespace shampoo::cuda {

class GatherTables::Places {
 public:
  // own: this shard rank. send, receive, gathered: offsets in the exchange buffers. With an all-to-all, the messages
  // that this rank sends are at `send`, and those that it receives at `receive`. With an all-gather, the segments of
  // all ranks are at `gathered`.
  Places(const PairTraffic& traffic, bool has_all_to_all, int own, int64_t send, int64_t receive, int64_t gathered)
      : traffic_(traffic), starts_(traffic.recv.size()) {
    std::exclusive_scan(traffic.recv.begin(), traffic.recv.end(), starts_.begin(), int64_t{0});
    const auto segment = static_cast<int64_t>(traffic.segment);
    exchange_ = {traffic.send.data(), traffic.recv.data(), send, receive, 0};
    if (has_all_to_all) return;
    exchange_.send_at = gathered + own * segment;
    exchange_.recv_at = gathered;
    exchange_.segment = segment;
  }

  const GatherExchange& exchange() const { return exchange_; }
  // Returns the position, in the exchange buffers, of data that this rank sends. offset: the position of the data in
  // the concatenation of all messages that this rank sends.
  int64_t Sent(int64_t offset) const { return exchange_.send_at + offset; }
  // Returns the position, in the exchange buffers, of data that this rank receives from `rank`. offset: the position of
  // the data in the concatenation of all messages that this rank receives.
  int64_t Received(int rank, int64_t offset) const {
    if (exchange_.segment == 0) return exchange_.recv_at + offset;
    return MessageFrom(rank) + offset - At(starts_, rank);
  }
  // Returns the copies that store the received messages at `to`, one after the other, as an all-to-all does.
  std::vector<GatherCopy> CopiesTo(int64_t to) const {
    std::vector<GatherCopy> copies;
    copies.reserve(starts_.size());
    for (int rank = 0; rank < static_cast<int>(starts_.size()); ++rank) {
      copies.push_back({MessageFrom(rank), to + At(starts_, rank), static_cast<int64_t>(At(traffic_.recv, rank))});
    }
    return copies;
  }

 private:
  int64_t MessageFrom(int rank) const {
    return exchange_.recv_at + rank * exchange_.segment + static_cast<int64_t>(At(traffic_.recv_at, rank));
  }

  const PairTraffic& traffic_;
  std::vector<int64_t> starts_;
  GatherExchange exchange_{};
};

GatherTables::GatherTables(const PlanData& plan, bool has_all_to_all, int64_t base)
    : passes_(PlanGatherPasses(plan)),
      has_all_to_all_(has_all_to_all),
      held_at_(base),
      gradient_at_(plan.blocks.size(), -1),
      param_at_(plan.blocks.size(), -1) {
  const GatherBytes& bytes = plan.gather_bytes();
  owned_at_ = has_all_to_all ? base + bytes.held : base;
  whole_at_ = has_all_to_all ? owned_at_ + bytes.owned : base + bytes.by_all_gather;
  view_.bytes = whole_at_ + bytes.whole - base;
  for (size_t bucket = 0; bucket < plan.bucket_count; ++bucket) AddBucket(plan, bucket);
  for (size_t bucket = 0; bucket < plan.bucket_count; ++bucket) {
    buckets_[bucket].copies = copies_[bucket].data();
    buckets_[bucket].copy_count = static_cast<int64_t>(copies_[bucket].size());
  }
  view_.buckets = buckets_.data();
  view_.slices = slices_.data();
  view_.series = series_.data();
  view_.tiles = tiles_.data();
  view_.slice_count = static_cast<int64_t>(slices_.size());
  view_.series_count = static_cast<int64_t>(series_.size());
  view_.tile_count = static_cast<int64_t>(tiles_.size());
  view_.gradient_at = gradient_at_.data();
  view_.param_at = param_at_.data();
}

void GatherTables::AddBucket(const PlanData& plan, size_t bucket) {
  const Placement& placement = plan.placement;
  const auto replicas = static_cast<size_t>(placement.replica_world);
  const int64_t sets = plan.exchange_sets();
  const int64_t set = static_cast<int64_t>(bucket) % sets;
  // Returns the position, in the exchange buffers, of the updates that a replica sends to the other replicas.
  const auto updates_of_replica = [&](size_t replica) {
    const int64_t segment = plan.bucket_segment_bytes[bucket];
    return set * plan.ReplicaSetBytes() + static_cast<int64_t>(replica) * segment + kSegmentHeaderBytes;
  };
  const GatherBytes& bytes = plan.gather_bytes();
  const int64_t held_at = held_at_ + set * ((has_all_to_all_ ? bytes.held : bytes.by_all_gather) / sets);
  const int64_t owned_at = has_all_to_all_ ? owned_at_ + set * (bytes.owned / sets) : held_at;
  const auto own_replica = static_cast<size_t>(placement.replica_rank);
  const GatherPass& own = passes_[bucket * replicas + own_replica];
  // With several replicas, an exchange between replicas follows the delivery. Updates are therefore delivered to this
  // replica's segment of that exchange.
  const int64_t delivered_at = replicas > 1 ? updates_of_replica(own_replica) : held_at;
  const Places collect(own.collect, has_all_to_all_, placement.shard_rank, held_at, owned_at, held_at);
  const Places deliver(own.deliver, has_all_to_all_, placement.shard_rank, owned_at, delivered_at, held_at);
  GatherBucket made{};
  made.collect = collect.exchange();
  made.deliver = deliver.exchange();
  const size_t first_held = tiles_.size();
  for (size_t replica = 0; replica < replicas; ++replica) {
    const size_t first = tiles_.size();
    for (const ShardSlice& slice : passes_[bucket * replicas + replica].held) {
      const Block& block = plan.block(slice.block);
      DeviceSlice device{static_cast<int32_t>(slice.block), slice.collected ? 1 : 0, slice.elements, 0, 0, 0, 0, 0};
      device.gradient_at = collect.Sent(slice.gradient_at);
      device.param_at = collect.Sent(slice.param_at);
      device.update_at = replicas > 1 ? updates_of_replica(replica) + slice.update_at
                                      : deliver.Received(block.shard_owner, slice.update_at);
      AddSlice(block, device, slice.region);
    }
    if (replica == own_replica) made.sent = TilesFrom(first);
  }
  made.held = TilesFrom(first_held);
  const size_t first_owned = tiles_.size();
  for (const ShardSlice& slice : own.owned) {
    DeviceSlice device{static_cast<int32_t>(slice.block), slice.collected ? 1 : 0, slice.elements, 0, 0, 0, 0, 0};
    device.gradient_at = collect.Received(slice.shard, slice.gradient_at);
    device.param_at = collect.Received(slice.shard, slice.param_at);
    device.update_at = deliver.Sent(slice.update_at);
    AddSlice(plan.block(slice.block), device, slice.region);
  }
  made.owned = TilesFrom(first_owned);
  for (const WholeBlock& whole : own.whole) {
    At(gradient_at_, whole.block) = whole_at_ + whole.gradient_at;
    At(param_at_, whole.block) = whole_at_ + whole.param_at;
  }
  whole_at_ += own.whole_bytes;
  copies_.push_back(replicas > 1 && !has_all_to_all_ ? deliver.CopiesTo(delivered_at) : std::vector<GatherCopy>());
  buckets_.push_back(made);
}

void GatherTables::AddSlice(const Block& block, const DeviceSlice& slice, const Region& region) {
  const auto index = static_cast<int32_t>(slices_.size());
  slices_.push_back(slice);
  DeviceSlice& added = slices_.back();
  added.first_series = static_cast<int64_t>(series_.size());
  AppendSeries(block, region, slice.elements, &series_);
  added.series_count = static_cast<int64_t>(series_.size()) - added.first_series;
  for (int64_t tile = 0; tile < TileCount(slice.elements); ++tile)
    tiles_.push_back({index, static_cast<int32_t>(tile)});
}

}  // namespace shampoo::cuda
