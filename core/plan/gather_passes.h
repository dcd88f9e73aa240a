// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/plan/plan.h"

// How shard ranks exchange the slices of blocks with shard_mode=gather. For each bucket and each replica, there is one
// pass. It exchanges the blocks of the bucket whose owners are in the replica. A pass consists of two exchanges:
//   collect  each shard rank sends its slices of gradients and parameters to the ranks that own the blocks;
//   deliver  the owners send updates to the ranks that hold the parameters.
// In both exchanges, each rank sends a message to every rank. A message from rank `a` to rank `b` has a header and
// then slices of blocks in plan order:
//   collect  the slices that `a` holds of the blocks that `b` owns. If every rank holds the whole parameter, only the
//            owner of a block sends its slice, to itself.
//   deliver  the slices that `b` holds of the blocks that `a` owns.
// The elements of a slice have the same sequence as in the block.
namespace shampoo {

// The size in bytes of the header of a message from one shard rank to another.
inline constexpr int64_t kPairHeaderBytes = 16;
// The alignment, in bytes, of the slices that follow the header.
inline constexpr int64_t kSliceAlignment = 16;

// The slice of a block that one shard rank holds.
struct ShardSlice {
  int64_t block = 0;  // index in the plan
  int shard = 0;      // the rank that holds the slice
  int64_t elements = 0;
  bool collected = false;  // whether `shard` sends the slice to the owner; false: the owner holds the whole parameter
  Region region;           // all elements of the parameter that `shard` holds, including those outside of the block
  // Offsets in this rank's buffers for messages, in bytes: gradient_at and param_at in the buffer of the exchange
  // collect, update_at in that of the exchange deliver.
  int64_t gradient_at = 0;
  int64_t param_at = 0;
  int64_t update_at = 0;
};

// The offsets of a gathered block in the buffer for whole blocks, in bytes.
struct WholeBlock {
  int64_t block = 0;        // index in the plan
  int64_t gradient_at = 0;  // offset of the gradient, and then of the update, which overwrites the gradient
  int64_t param_at = 0;
};

// The messages of this rank in one exchange.
struct PairTraffic {
  std::vector<size_t> send, recv;  // bytes to and from each shard rank, headers included
  // The next two fields are used if the exchange is an all-gather. Each rank then contributes one segment of `segment`
  // bytes: its messages to all ranks, and padding.
  size_t segment = 0;
  std::vector<size_t> recv_at;  // by shard rank: where the message for this rank begins in the segment of that rank
};

// One pass, as one shard rank sees it. The comments of the structs in this file call that shard rank "this rank".
struct GatherPass {
  PairTraffic collect, deliver;
  std::vector<ShardSlice> held;   // the slices that this rank holds
  std::vector<ShardSlice> owned;  // all slices of the blocks that this rank owns
  std::vector<WholeBlock> whole;  // the blocks that this rank owns
  int64_t whole_bytes = 0;        // size of these blocks in the buffer for whole blocks
};

// Returns the passes of the rank plan.rank(). The pass of bucket b and replica q has index b * replica_world + q. If q
// is another replica, "this rank" of the pass is the rank of q that has the same shard rank.
std::vector<GatherPass> PlanGatherPasses(const PlanData& plan);

// Sets PlanData::gather_bytes_of_rank, PlanData::bucket_segment_bytes and, on a device, PlanData::slice_counts_of_rank.
void PlanGatherBytes(PlanData* plan);

}  // namespace shampoo
