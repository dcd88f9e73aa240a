// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/gathering.h"

#include <algorithm>
#include <numeric>

#include "core/base/round_up.h"
#include "core/plan/exchange.h"
#include "core/plan/owners.h"

namespace shampoo {
namespace {

// Of n elements of a block.
struct PartBytes {
  int64_t gradient, param, update;
  int64_t collected() const { return gradient + param; }
};

PartBytes BytesOf(const ParamDesc& desc, const Block& block, int64_t n) {
  const auto bytes = [n](Dtype dtype) { return RoundUp(n * static_cast<int64_t>(SizeOf(dtype)), kPartAlignment); };
  return {bytes(desc.grad_dtype), bytes(desc.param_dtype), bytes(block.exchange_dtype)};
}

const ParamDesc& DescOf(const PlanData& plan, const Block& block) {
  return plan.params[static_cast<size_t>(block.param)].desc;
}

// Whether the part of a holder goes to the owner: of a parameter that every rank has, the owner's own does.
bool IsCollected(const PlanData& plan, const Block& block, int shard) {
  return !plan.cuts[static_cast<size_t>(block.param)].everywhere() || shard == block.shard_owner;
}

// Calls visit(shard rank, its region, elements of the block in it) for all that hold something of a block.
template <typename Visit>
void ForEachHolder(const PlanData& plan, const Block& block, Visit&& visit) {
  const Cuts& cuts = plan.cuts[static_cast<size_t>(block.param)];
  for (int shard = 0; shard < plan.placement.shard_world; ++shard) {
    const Region region = cuts.Of(shard);
    const int64_t n = CountIn(block, region);
    if (n > 0) visit(shard, region, n);
  }
}

// The blocks of each round, in plan order.
std::vector<std::vector<int64_t>> BlocksOfRounds(const PlanData& plan) {
  std::vector<std::vector<int64_t>> blocks(plan.bucket_count * static_cast<size_t>(plan.placement.replica_world));
  for (size_t i = 0; i < plan.blocks.size(); ++i) {
    const Block& block = plan.blocks[i];
    const int round = block.bucket * plan.placement.replica_world + block.owner;
    blocks[static_cast<size_t>(round)].push_back(static_cast<int64_t>(i));
  }
  return blocks;
}

WholeBlock PlaceWhole(const PlanData& plan, int64_t index, int64_t* end) {
  const Block& block = plan.blocks[static_cast<size_t>(index)];
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

std::vector<int64_t> Starts(const std::vector<size_t>& bytes) {
  std::vector<int64_t> starts(bytes.size());
  std::exclusive_scan(bytes.begin(), bytes.end(), starts.begin(), int64_t{0});
  return starts;
}

// What ranks send in one exchange of a round, from each to each.
class Sums {
 public:
  explicit Sums(int world) : world_(static_cast<size_t>(world)) { Clear(); }
  void Clear() {
    sent_.assign(world_, static_cast<int64_t>(world_) * kPairHeaderBytes);
    received_ = sent_;
    to_itself_.assign(world_, kPairHeaderBytes);
  }
  void Add(int from, int to, int64_t bytes) {
    sent_[static_cast<size_t>(from)] += bytes;
    received_[static_cast<size_t>(to)] += bytes;
    if (from == to) to_itself_[static_cast<size_t>(to)] += bytes;
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

std::vector<GatherRound> PlanRounds(const PlanData& plan) {
  const int own = plan.placement.shard_rank;
  const auto world = static_cast<size_t>(plan.placement.shard_world);
  std::vector<GatherRound> rounds;
  for (const std::vector<int64_t>& blocks : BlocksOfRounds(plan)) {
    GatherRound& round = rounds.emplace_back();
    PairTraffic& collect = round.collect;
    PairTraffic& deliver = round.deliver;
    for (PairTraffic* traffic : {&collect, &deliver}) {
      traffic->send.assign(world, kPairHeaderBytes);
      traffic->recv.assign(world, kPairHeaderBytes);
      traffic->recv_at.assign(world, static_cast<size_t>(own) * kPairHeaderBytes);
    }
    Sums collected(plan.placement.shard_world);
    Sums delivered(plan.placement.shard_world);
    int64_t end = 0;
    for (const int64_t index : blocks) {
      const Block& block = plan.blocks[static_cast<size_t>(index)];
      const auto owner = static_cast<size_t>(block.shard_owner);
      if (block.shard_owner == own) round.whole.push_back(PlaceWhole(plan, index, &end));
      ForEachHolder(plan, block, [&](int shard, const Region& region, int64_t n) {
        const auto holder = static_cast<size_t>(shard);
        const PartBytes bytes = BytesOf(DescOf(plan, block), block, n);
        const int64_t to_owner = IsCollected(plan, block, shard) ? bytes.collected() : 0;
        collected.Add(shard, block.shard_owner, to_owner);
        delivered.Add(block.shard_owner, shard, bytes.update);
        if (block.shard_owner < own) collect.recv_at[holder] += static_cast<size_t>(to_owner);
        if (shard < own) deliver.recv_at[owner] += static_cast<size_t>(bytes.update);
        const BlockPart part{index, shard, n, to_owner > 0, region, 0, 0, 0};
        // Within the pair, first; the start of the pair is known when all sizes are.
        if (shard == own) {
          round.held.push_back(part);
          round.held.back().gradient_at = static_cast<int64_t>(collect.send[owner]);
          round.held.back().update_at = static_cast<int64_t>(deliver.recv[owner]);
          collect.send[owner] += static_cast<size_t>(to_owner);
          deliver.recv[owner] += static_cast<size_t>(bytes.update);
        }
        if (block.shard_owner == own) {
          round.owned.push_back(part);
          round.owned.back().gradient_at = static_cast<int64_t>(collect.recv[holder]);
          round.owned.back().update_at = static_cast<int64_t>(deliver.send[holder]);
          collect.recv[holder] += static_cast<size_t>(to_owner);
          deliver.send[holder] += static_cast<size_t>(bytes.update);
        }
      });
    }
    collect.segment = static_cast<size_t>(collected.largest());
    deliver.segment = static_cast<size_t>(delivered.largest());
    const auto move = [&](BlockPart* part, const std::vector<int64_t>& collect_at,
                          const std::vector<int64_t>& deliver_at, size_t partner) {
      const Block& block = plan.blocks[static_cast<size_t>(part->block)];
      part->gradient_at += collect_at[partner];
      part->param_at = part->gradient_at + BytesOf(DescOf(plan, block), block, part->elements).gradient;
      part->update_at += deliver_at[partner];
    };
    const std::vector<int64_t> collect_send = Starts(collect.send);
    const std::vector<int64_t> deliver_recv = Starts(deliver.recv);
    for (BlockPart& part : round.held) {
      const int owner = plan.blocks[static_cast<size_t>(part.block)].shard_owner;
      move(&part, collect_send, deliver_recv, static_cast<size_t>(owner));
    }
    const std::vector<int64_t> collect_recv = Starts(collect.recv);
    const std::vector<int64_t> deliver_send = Starts(deliver.send);
    for (BlockPart& part : round.owned) {
      move(&part, collect_recv, deliver_send, static_cast<size_t>(part.shard));
    }
  }
  return rounds;
}

void PlanGatherBytes(PlanData* plan) {
  const auto world = static_cast<size_t>(plan->placement.shard_world);
  const auto replicas = static_cast<size_t>(plan->placement.replica_world);
  std::vector<GatherBytes>& all = plan->gather_bytes_of_rank;
  all.assign(replicas * world, {});
  plan->bucket_segment_bytes.assign(replicas > 1 ? plan->bucket_count : 0, 0);
  const std::vector<std::vector<int64_t>> blocks_of_round = BlocksOfRounds(*plan);
  // By shard rank, for all replicas: the largest of any round.
  std::vector<GatherBytes> largest(world);
  int64_t largest_segment = 0;
  std::vector<int64_t> arriving(world);
  std::vector<int64_t> gathered(world);
  Sums collect(plan->placement.shard_world);
  Sums deliver(plan->placement.shard_world);
  for (size_t round = 0; round < blocks_of_round.size(); ++round) {
    collect.Clear();
    deliver.Clear();
    std::vector<int64_t> whole(world, 0);
    for (const int64_t index : blocks_of_round[round]) {
      const Block& block = plan->blocks[static_cast<size_t>(index)];
      (void)PlaceWhole(*plan, index, &whole[static_cast<size_t>(block.shard_owner)]);
      ForEachHolder(*plan, block, [&](int shard, const Region&, int64_t n) {
        const PartBytes bytes = BytesOf(DescOf(*plan, block), block, n);
        if (IsCollected(*plan, block, shard)) collect.Add(shard, block.shard_owner, bytes.collected());
        deliver.Add(block.shard_owner, shard, bytes.update);
      });
    }
    largest_segment = std::max({largest_segment, collect.largest(), deliver.largest()});
    const size_t bucket = round / replicas;
    const size_t replica = round % replicas;
    for (size_t s = 0; s < world; ++s) {
      GatherBytes& most = largest[s];
      most.held = std::max(most.held, collect.sent(s));
      // One copy's updates come to where its gradients were sent from.
      if (replicas == 1) most.held = std::max(most.held, deliver.received(s));
      most.owned = std::max({most.owned, collect.received(s), deliver.sent(s)});
      most.whole = std::max(most.whole, whole[s]);
      arriving[s] = std::max(replica == 0 ? 0 : arriving[s], kSegmentHeaderBytes + deliver.received(s));
      GatherBytes& of_rank = all[replica * world + s];
      of_rank.sent += collect.to_others(s) + deliver.to_others(s);
      of_rank.sent_by_all_gather += collect.largest() + deliver.largest();
    }
    if (replicas == 1 || replica + 1 < replicas) continue;
    for (size_t s = 0; s < world; ++s) {
      arriving[s] = RoundUp(arriving[s], kSegmentAlignment);
      largest[s].arrived = std::max(largest[s].arrived, static_cast<int64_t>(replicas) * arriving[s]);
      gathered[s] += arriving[s];
    }
    plan->bucket_segment_bytes[bucket] = arriving[static_cast<size_t>(plan->placement.shard_rank)];
  }
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const size_t s = rank % world;
    const GatherBytes& most = largest[s];
    GatherBytes& of_rank = all[rank];
    of_rank.held = RoundUp(most.held, kSegmentAlignment);
    of_rank.owned = RoundUp(most.owned, kSegmentAlignment);
    of_rank.whole = RoundUp(most.whole, kSegmentAlignment);
    of_rank.arrived = most.arrived;
    of_rank.by_all_gather = RoundUp(static_cast<int64_t>(world) * largest_segment, kSegmentAlignment);
    of_rank.sent += gathered[s];
    of_rank.sent_by_all_gather += gathered[s];
  }
}

}  // namespace shampoo
