// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/plan/plan.h"
#include "core/plan/region.h"

namespace shampoo {

// How whole blocks come together from the shards that ranks hold, with shard_mode gather. Each bucket of blocks of each
// replica makes a round of two exchanges: gradients and parameters are collected by the shard ranks that own the
// blocks, updates are delivered to those that hold the parameters. In both, what one rank sends another begins with a
// header; then, for each block in plan order, its part that the holder has, in the order of the block.

// At the start of what one shard rank sends another.
inline constexpr int64_t kPairHeaderBytes = 16;
// The parts that follow lie at multiples of this.
inline constexpr int64_t kPartAlignment = 16;

// What one shard rank holds of one block.
struct BlockPart {
  int64_t block = 0;  // its index in the plan
  int shard = 0;      // the holder
  int64_t elements = 0;
  bool collected = false;  // false: the owner has the elements by itself
  Region region;           // what the holder has of the parameter
  // Bytes from the start of this rank's buffer of the exchange.
  int64_t gradient_at = 0;
  int64_t param_at = 0;
  int64_t update_at = 0;
};

// Where a block that is brought together lies whole.
struct WholeBlock {
  int64_t block = 0;
  int64_t gradient_at = 0;  // and then its update
  int64_t param_at = 0;
};

// One exchange as a shard rank sees it.
struct PairTraffic {
  std::vector<size_t> send, recv;  // bytes to and from each shard rank, headers included
  // By all-gather: every rank's sends, one after another, padded to the same; and where those to this rank begin.
  size_t segment = 0;
  std::vector<size_t> recv_at;
};

struct GatherRound {
  PairTraffic collect, deliver;
  std::vector<BlockPart> held;    // by this rank
  std::vector<BlockPart> owned;   // of the blocks that are this rank's, by any
  std::vector<WholeBlock> whole;  // those blocks
};

// The rounds of a shard rank: of bucket b and replica q at b * replica_world + q. In those of other replicas it stands
// in for the ranks at its place there.
std::vector<GatherRound> PlanRounds(const PlanData& plan);

// Fills gather_bytes_of_rank, and bucket_segment_bytes for replicas.
void PlanGatherBytes(PlanData* plan);

}  // namespace shampoo
