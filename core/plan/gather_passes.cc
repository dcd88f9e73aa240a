// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/gather_passes.h"

#include <algorithm>
#include <numeric>

#include "core/base/at.h"
#include "core/base/round_up.h"
#include "core/plan/assignment.h"
#include "core/plan/slice_runs.h"

namespace shampoo {
namespace {

// The sizes of the gradient, the parameter and the update of a slice of a block, in bytes.
struct SliceBytes {
  int64_t gradient, param, update;
  int64_t collected() const { return gradient + param; }
};

// Returns the sizes of a slice that has n elements of a block.
SliceBytes BytesOf(const ParamDesc& desc, const Block& block, int64_t n) {
  const auto bytes = [n](Dtype dtype) { return RoundUp(n * static_cast<int64_t>(SizeOf(dtype)), kSliceAlignment); };
  return {bytes(desc.grad_dtype), bytes(desc.param_dtype), bytes(block.exchange_dtype)};
}

const ParamDesc& DescOf(const PlanData& plan, const Block& block) { return plan.param(block).desc; }

// Returns whether the rank `shard` sends its slice of the block to the owner. If every rank holds the whole parameter,
// only the owner sends its slice, to itself.
bool IsCollected(const PlanData& plan, const Block& block, int shard) {
  return !plan.shard_layout(block).everywhere() || shard == block.shard_owner;
}

// Calls visit(shard rank, the region that the rank holds, the number of elements of the block in the region) for each
// rank that holds elements of the block.
template <typename Visit>
void ForEachHolder(const PlanData& plan, const Block& block, Visit&& visit) {
  const ShardLayout& layout = plan.shard_layout(block);
  for (int shard = 0; shard < plan.placement.shard_world; ++shard) {
    const Region region = layout.Of(shard);
    const int64_t n = CountIn(block, region);
    if (n > 0) visit(shard, region, n);
  }
}

// Returns, for each pass (see GatherPass), the indices of its blocks in plan order.
std::vector<std::vector<int64_t>> BlocksOfPasses(const PlanData& plan) {
  std::vector<std::vector<int64_t>> blocks(plan.bucket_count * static_cast<size_t>(plan.placement.replica_world));
  for (size_t i = 0; i < plan.blocks.size(); ++i) {
    const Block& block = plan.blocks[i];
    const int pass = block.bucket * plan.placement.replica_world + block.owner;
    At(blocks, pass).push_back(static_cast<int64_t>(i));
  }
  return blocks;
}

// Places a block at *end in the buffer for whole blocks, and advances *end to the end of the block.
WholeBlock PlaceWhole(const PlanData& plan, int64_t index, int64_t* end) {
  const Block& block = plan.block(index);
  const ParamDesc& desc = DescOf(plan, block);
  const auto place = [&](size_t size) {
    const int64_t at = *end;
    *end += RoundUp(block.elements * static_cast<int64_t>(size), kSegmentAlignment);
    return at;
  };
  WholeBlock whole{index, 0, 0};
  whole.gradient_at = place(std::max(SizeOf(desc.grad_dtype), SizeOf(block.exchange_dtype)));
  whole.param_at = place(SizeOf(desc.param_dtype));
  return whole;
}

// Returns the offsets of consecutive messages of these sizes.
std::vector<int64_t> Starts(const std::vector<size_t>& bytes) {
  std::vector<int64_t> starts(bytes.size());
  std::exclusive_scan(bytes.begin(), bytes.end(), starts.begin(), int64_t{0});
  return starts;
}

// Returns the SliceCounts (core/plan/plan.h) of each rank.
std::vector<SliceCounts> CountSlices(const PlanData& plan) {
  const Placement& placement = plan.placement;
  std::vector<SliceCounts> counts(static_cast<size_t>(plan.ranks()));
  std::vector<RunSeries> series;
  for (const Block& block : plan.blocks) {
    ForEachHolder(plan, block, [&](int shard, const Region& region, int64_t n) {
      series.clear();
      AppendSeries(block, region, n, &series);
      const auto add = [&](int replica, int of_shard) {
        SliceCounts& count = At(counts, replica * placement.shard_world + of_shard);
        ++count.slices;
        count.elements += n;
        count.series += static_cast<int64_t>(series.size());
      };
      for (int replica = 0; replica < placement.replica_world; ++replica) add(replica, shard);
      add(block.owner, block.shard_owner);
    });
  }
  return counts;
}

// Adds up the bytes that each rank sends and receives in one exchange of a pass, headers included.
class TrafficSums {
 public:
  explicit TrafficSums(int world) : world_(static_cast<size_t>(world)) { Clear(); }
  void Clear() {
    sent_.assign(world_, static_cast<int64_t>(world_) * kPairHeaderBytes);
    received_ = sent_;
    to_itself_.assign(world_, kPairHeaderBytes);
  }
  void Add(int from, int to, int64_t bytes) {
    At(sent_, from) += bytes;
    At(received_, to) += bytes;
    if (from == to) At(to_itself_, to) += bytes;
  }
  int64_t sent(size_t rank) const { return sent_[rank]; }
  int64_t received(size_t rank) const { return received_[rank]; }
  int64_t to_others(size_t rank) const { return sent_[rank] - to_itself_[rank]; }
  int64_t largest() const { return *std::max_element(sent_.begin(), sent_.end()); }

 private:
  size_t world_;
  std::vector<int64_t> sent_, received_, to_itself_;
};

}  // namespace

std::vector<GatherPass> PlanGatherPasses(const PlanData& plan) {
  const int own = plan.placement.shard_rank;
  const auto world = static_cast<size_t>(plan.placement.shard_world);
  std::vector<GatherPass> passes;
  for (const std::vector<int64_t>& blocks : BlocksOfPasses(plan)) {
    GatherPass& pass = passes.emplace_back();
    PairTraffic& collect = pass.collect;
    PairTraffic& deliver = pass.deliver;
    for (PairTraffic* traffic : {&collect, &deliver}) {
      traffic->send.assign(world, kPairHeaderBytes);
      traffic->recv.assign(world, kPairHeaderBytes);
      traffic->recv_at.assign(world, static_cast<size_t>(own) * kPairHeaderBytes);
    }
    TrafficSums collected(plan.placement.shard_world);
    TrafficSums delivered(plan.placement.shard_world);
    int64_t end = 0;
    for (const int64_t index : blocks) {
      const Block& block = plan.block(index);
      const int owner = block.shard_owner;
      if (owner == own) pass.whole.push_back(PlaceWhole(plan, index, &end));
      ForEachHolder(plan, block, [&](int shard, const Region& region, int64_t n) {
        const SliceBytes bytes = BytesOf(DescOf(plan, block), block, n);
        const int64_t to_owner = IsCollected(plan, block, shard) ? bytes.collected() : 0;
        collected.Add(shard, owner, to_owner);
        delivered.Add(owner, shard, bytes.update);
        if (owner < own) At(collect.recv_at, shard) += static_cast<size_t>(to_owner);
        if (shard < own) At(deliver.recv_at, owner) += static_cast<size_t>(bytes.update);
        const ShardSlice slice{index, shard, n, to_owner > 0, region, 0, 0, 0};
        // The offsets below count from the start of the message between `shard` and `owner`. When the sizes of all
        // messages are known, `move` (below) adds the offset of this message in the buffer.
        if (shard == own) {
          pass.held.push_back(slice);
          pass.held.back().gradient_at = static_cast<int64_t>(At(collect.send, owner));
          pass.held.back().update_at = static_cast<int64_t>(At(deliver.recv, owner));
          At(collect.send, owner) += static_cast<size_t>(to_owner);
          At(deliver.recv, owner) += static_cast<size_t>(bytes.update);
        }
        if (owner == own) {
          pass.owned.push_back(slice);
          pass.owned.back().gradient_at = static_cast<int64_t>(At(collect.recv, shard));
          pass.owned.back().update_at = static_cast<int64_t>(At(deliver.send, shard));
          At(collect.recv, shard) += static_cast<size_t>(to_owner);
          At(deliver.send, shard) += static_cast<size_t>(bytes.update);
        }
      });
    }
    pass.whole_bytes = end;
    collect.segment = static_cast<size_t>(collected.largest());
    deliver.segment = static_cast<size_t>(delivered.largest());
    const auto move = [&](ShardSlice* slice, const std::vector<int64_t>& collect_at,
                          const std::vector<int64_t>& deliver_at, int partner) {
      const Block& block = plan.block(slice->block);
      slice->gradient_at += At(collect_at, partner);
      slice->param_at = slice->gradient_at + BytesOf(DescOf(plan, block), block, slice->elements).gradient;
      slice->update_at += At(deliver_at, partner);
    };
    const std::vector<int64_t> collect_send = Starts(collect.send);
    const std::vector<int64_t> deliver_recv = Starts(deliver.recv);
    for (ShardSlice& slice : pass.held) {
      move(&slice, collect_send, deliver_recv, plan.block(slice.block).shard_owner);
    }
    const std::vector<int64_t> collect_recv = Starts(collect.recv);
    const std::vector<int64_t> deliver_send = Starts(deliver.send);
    for (ShardSlice& slice : pass.owned) {
      move(&slice, collect_recv, deliver_send, slice.shard);
    }
  }
  return passes;
}

void PlanGatherBytes(PlanData* plan) {
  const auto world = static_cast<size_t>(plan->placement.shard_world);
  const auto replicas = static_cast<size_t>(plan->placement.replica_world);
  std::vector<GatherBytes>& all = plan->gather_bytes_of_rank;
  all.assign(replicas * world, {});
  plan->bucket_segment_bytes.assign(replicas > 1 ? plan->bucket_count : 0, 0);
  const std::vector<std::vector<int64_t>> blocks_of_pass = BlocksOfPasses(*plan);
  // By shard rank: the largest number of bytes that a pass of any replica needs in each buffer.
  std::vector<GatherBytes> largest(world);
  int64_t largest_segment = 0;
  std::vector<int64_t> arriving(world);
  std::vector<int64_t> gathered(world);
  TrafficSums collect(plan->placement.shard_world);
  TrafficSums deliver(plan->placement.shard_world);
  // A rank on a device checks all blocks that it owns before it writes anything, so its buffer for whole blocks holds
  // the blocks of all buckets.
  const bool keeps_all = plan->placement.device != DeviceType::kCpu;
  if (keeps_all) plan->slice_counts_of_rank = CountSlices(*plan);
  for (size_t pass = 0; pass < blocks_of_pass.size(); ++pass) {
    collect.Clear();
    deliver.Clear();
    std::vector<int64_t> whole(world, 0);
    for (const int64_t index : blocks_of_pass[pass]) {
      const Block& block = plan->block(index);
      (void)PlaceWhole(*plan, index, &At(whole, block.shard_owner));
      ForEachHolder(*plan, block, [&](int shard, const Region&, int64_t n) {
        const SliceBytes bytes = BytesOf(DescOf(*plan, block), block, n);
        if (IsCollected(*plan, block, shard)) collect.Add(shard, block.shard_owner, bytes.collected());
        deliver.Add(block.shard_owner, shard, bytes.update);
      });
    }
    largest_segment = std::max({largest_segment, collect.largest(), deliver.largest()});
    const size_t bucket = pass / replicas;
    const size_t replica = pass % replicas;
    for (size_t s = 0; s < world; ++s) {
      GatherBytes& max = largest[s];
      max.held = std::max(max.held, collect.sent(s));
      // With one replica, updates arrive in the buffer from which the gradients were sent.
      if (replicas == 1) max.held = std::max(max.held, deliver.received(s));
      max.owned = std::max({max.owned, collect.received(s), deliver.sent(s)});
      max.whole = std::max(max.whole, whole[s]);
      arriving[s] = std::max(replica == 0 ? 0 : arriving[s], kSegmentHeaderBytes + deliver.received(s));
      GatherBytes& of_rank = all[replica * world + s];
      of_rank.whole += whole[s];
      of_rank.sent += collect.to_others(s) + deliver.to_others(s);
      of_rank.sent_by_all_gather += collect.largest() + deliver.largest();
    }
    if (replicas == 1 || replica + 1 < replicas) continue;
    for (size_t s = 0; s < world; ++s) {
      arriving[s] = RoundUp(arriving[s], kSegmentAlignment);
      largest[s].arrived = std::max(largest[s].arrived, static_cast<int64_t>(replicas) * arriving[s]);
      gathered[s] += arriving[s];
    }
    plan->bucket_segment_bytes[bucket] = At(arriving, plan->placement.shard_rank);
  }
  const int64_t sets = plan->exchange_sets();
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const size_t s = rank % world;
    const GatherBytes& max = largest[s];
    GatherBytes& of_rank = all[rank];
    of_rank.held = sets * RoundUp(max.held, kSegmentAlignment);
    of_rank.owned = sets * RoundUp(max.owned, kSegmentAlignment);
    of_rank.whole = RoundUp(keeps_all ? of_rank.whole : max.whole, kSegmentAlignment);
    of_rank.arrived = sets * max.arrived;
    of_rank.by_all_gather = sets * RoundUp(static_cast<int64_t>(world) * largest_segment, kSegmentAlignment);
    of_rank.sent += gathered[s];
    of_rank.sent_by_all_gather += gathered[s];
  }
}

}  // namespace shampoo
