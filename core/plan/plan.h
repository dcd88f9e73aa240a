// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/base/at.h"
#include "core/base/device_type.h"
#include "core/base/status.h"
#include "core/config/config.h"
#include "core/plan/block.h"
#include "core/plan/shard_layout.h"

// The plan of an optimizer: the blocks of all parameters, the owner of each block, and the sizes of memory and
// exchanges. A plan is computed from shapes and settings alone, and has no pointers to the caller's buffers.
namespace shampoo {

// The position of a rank among all ranks, and the device type and the number of threads of the rank.
struct Placement {
  int threads = 0;  // 0: use the key threads
  int replica_rank = 0;
  int replica_world = 1;
  int shard_rank = 0;
  int shard_world = 1;
  DeviceType device = DeviceType::kCpu;
};

// With shard_mode=gather, the bytes of a rank's exchange buffers, and the bytes that the rank sends in a step. Each
// buffer except `whole` has room for PlanData::exchange_sets() buckets. If the communicator has no all-to-all, the rank
// also has the buffer by_all_gather. On a device, by_all_gather then replaces `held` and `owned`.
struct GatherBytes {
  int64_t held = 0;     // buffer for the slices that the rank sends; with one replica, also for received updates
  int64_t owned = 0;    // buffer for the slices that the rank receives as owner, and for updates that it sends
  int64_t whole = 0;    // buffer for whole blocks that the rank owns: on the CPU those of one bucket, on a device all
  int64_t arrived = 0;  // buffer for updates of elements that the rank holds, from all replicas; 0 with one replica
  int64_t by_all_gather = 0;       // buffer for the all-gathers that replace the all-to-all
  int64_t sent = 0;                // the bytes that the rank sends in a step, if the communicator has an all-to-all
  int64_t sent_by_all_gather = 0;  // the same if the communicator has no all-to-all

  int64_t buffers() const { return held + owned + whole + arrived; }
};

// With shard_mode=gather on a device: totals over the slices that a rank holds, plus totals over all slices of the
// blocks that the rank owns. If the rank holds a slice of a block that it owns, this slice counts twice.
struct SliceCounts {
  int64_t slices = 0;
  int64_t elements = 0;
  int64_t series = 0;  // number of RunSeries (slice_runs.h)
};

// The contents of a finished plan. The Plan and its optimizers share one PlanData, which does not change.
struct PlanData {
  Placement placement;
  int threads = 1;               // the number that a step uses; never 0
  std::vector<Settings> groups;  // [0]: from the plan's config
  // By group: names and values of the keys that must have equal values on all ranks.
  std::vector<std::vector<std::pair<std::string, std::string>>> keys;
  std::vector<Param> params;
  std::vector<Block> blocks;                 // by parameter, then by position
  std::vector<int64_t> state_bytes_of_rank;  // size of each rank's arena
  std::vector<int64_t> workspace_bytes_of_rank;
  size_t bucket_count = 1;
  std::vector<int64_t> bucket_segment_bytes;  // by bucket: the bytes that each replica sends; empty with one replica

  bool gathers = false;  // true with shard_mode=gather and several shard ranks
  // The next three fields are used only if `gathers` is true.
  std::vector<ShardLayout> shard_layouts;  // by parameter
  std::vector<GatherBytes> gather_bytes_of_rank;
  std::vector<SliceCounts> slice_counts_of_rank;  // empty on the CPU

  const Block& block(int64_t index) const { return At(blocks, index); }
  const Param& param(const Block& block) const { return At(params, block.param); }
  const Settings& group(const Block& block) const { return At(groups, block.group); }
  const Settings& group(const Param& param) const { return At(groups, param.desc.group); }
  // Returns whether some group has state_rounding=stochastic or param_rounding=stochastic.
  bool rounds_stochastically() const {
    return std::any_of(groups.begin(), groups.end(),
                       [](const Settings& group) { return group.rounds_stochastically(); });
  }
  // Requires that `gathers` is true.
  const ShardLayout& shard_layout(const Block& block) const { return At(shard_layouts, block.param); }

  // The number of ranks that may own a block: the replica ranks or, with `gathers`, the shard ranks of all replicas.
  int ranks() const { return placement.replica_world * (gathers ? placement.shard_world : 1); }
  // The index of this rank among the ranks that ranks() counts. With `gathers`, all shard ranks of a replica have
  // consecutive indices.
  int rank() const {
    return gathers ? placement.replica_rank * placement.shard_world + placement.shard_rank : placement.replica_rank;
  }
  // Returns whether this rank owns a block.
  bool Owns(const Block& block) const {
    return block.owner == placement.replica_rank && block.shard_owner == placement.shard_rank;
  }

  // The number of sets of exchange buffers. If a device computes several buckets, there are two sets, so that one
  // bucket is exchanged while the next one is computed. Bucket k uses set k % exchange_sets().
  int64_t exchange_sets() const { return placement.device != DeviceType::kCpu && bucket_count > 1 ? 2 : 1; }
  // Returns whether replicas on devices use a separate exchange to agree that all of them make the step, before any of
  // them writes. Gathered blocks require this exchange because each replica checks only the blocks that it owns.
  // Several buckets require it because the second bucket is computed while the first one is exchanged. Without this
  // exchange, replicas agree with the headers that precede their updates (SegmentHeader).
  bool replicas_agree_first() const { return placement.replica_world > 1 && (gathers || bucket_count > 1); }
  int64_t state_bytes() const { return At(state_bytes_of_rank, rank()); }
  const GatherBytes& gather_bytes() const { return At(gather_bytes_of_rank, rank()); }
  // ReplicaSetBytes() returns the size of a buffer in which the updates from all replicas fit, for any one bucket.
  // ReplicaBufferBytes() returns the total size of these buffers in all sets.
  int64_t ReplicaSetBytes() const;
  int64_t ReplicaBufferBytes() const { return exchange_sets() * ReplicaSetBytes(); }
};

// Collects groups and parameters, and computes a PlanData from them.
class Plan {
 public:
  // A function that returns how many bytes of workspace the backend allocates on a rank. rank: an index as in
  // PlanData::rank(). blocks: the blocks that the rank owns.
  using WorkspaceBytes = int64_t (*)(const PlanData& plan, size_t rank, const std::vector<const Block*>& blocks);

  static Status Create(const Config& config, const Placement& placement, WorkspaceBytes workspace_bytes,
                       std::unique_ptr<Plan>* out);

  Status AddGroup(const Config& config, int* group);
  Status AddParam(ParamDesc desc, int* index);
  // Describes which shard of a parameter the shard rank `shard_rank` holds. Uses only the fields of `desc` that
  // describe a shard.
  Status AddShard(int param, int shard_rank, const ParamDesc& desc);
  // Returns the number of dims of a parameter, or 0 if the parameter does not exist.
  int DimsOf(int param) const;
  // Computes blocks, owners and byte counts. Nothing can be added afterwards.
  Status Finish();

  bool finished() const { return finished_ != nullptr; }
  Status CheckFinished() const;
  std::shared_ptr<const PlanData> data() const { return finished_; }

  // Sets *bytes to the size `what` of a rank; rank -1 is this rank. what: "state", "workspace", "total" or "comm". The
  // suffix ".all_gather" of one of the last three selects the size with a communicator that has no all-to-all.
  Status Bytes(int rank, std::string_view what, int64_t* bytes) const;

 private:
  Plan(const Config& config, WorkspaceBytes workspace_bytes) : config_(config), workspace_bytes_(workspace_bytes) {}
  Status CheckOpen() const;
  Status AddSettings(const Config& config);
  Status FindShardLayouts(PlanData* made) const;
  Status MakeBlocks(PlanData* made) const;
  Status CheckArithmetic(const PlanData& made) const;
  void PlaceStates(PlanData* made) const;

  Config config_;
  WorkspaceBytes workspace_bytes_;
  std::unordered_set<std::string> names_;
  std::vector<std::map<int, ParamDesc>> shards_;  // from AddShard: by parameter, then by shard rank
  std::unique_ptr<PlanData> open_ = std::make_unique<PlanData>();
  std::shared_ptr<const PlanData> finished_;
};

}  // namespace shampoo
