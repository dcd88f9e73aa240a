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

// The plan of an optimizer: the blocks of a set of parameters, their owners, and how much memory and traffic they need.
// It is computed from shapes and settings alone and never refers to the caller's buffers.
namespace shampoo {

// The place of a rank among all ranks, and the processors that it uses.
struct Placement {
  int threads = 0;  // 0: use the key threads
  int replica_rank = 0;
  int replica_world = 1;
  int shard_rank = 0;
  int shard_world = 1;
  DeviceType device = DeviceType::kCpu;
};

// With shard_mode gather: the memory of a rank for the exchanges between shards, and what it sends in a step, in bytes.
// Each buffer except `whole` has room for all sets (PlanData::exchange_sets).
struct GatherBytes {
  int64_t held = 0;           // buffer for the slices that the rank sends; with one replica also for their updates
  int64_t owned = 0;          // buffer for the received slices of the blocks that it owns, and for their updates
  int64_t whole = 0;          // buffer for the whole blocks that it owns; on the CPU, only those of one bucket
  int64_t arrived = 0;        // buffer for updates of the rank's shards, from all replicas
  int64_t by_all_gather = 0;  // additional buffer if the communicator has no all-to-all
  int64_t sent = 0;
  int64_t sent_by_all_gather = 0;

  int64_t buffers() const { return held + owned + whole + arrived; }
};

// With shard_mode gather on a device: totals over the slices that a rank holds and the slices of the blocks that it
// owns. A slice of both kinds counts twice.
struct SliceCounts {
  int64_t slices = 0;
  int64_t elements = 0;
  int64_t series = 0;  // number of RunSeries
};

// The contents of a finished plan. They do not change; the Plan and its optimizers share them.
struct PlanData {
  Placement placement;
  int threads = 1;                                                     // the number that a step uses; never 0
  std::vector<Settings> groups;                                        // [0]: from the plan's config
  std::vector<std::vector<std::pair<std::string, std::string>>> keys;  // by group; must be the same on all ranks
  std::vector<Param> params;
  std::vector<Block> blocks;                 // by parameter, then by position
  std::vector<int64_t> state_bytes_of_rank;  // size of each rank's arena
  std::vector<int64_t> workspace_bytes_of_rank;
  size_t bucket_count = 1;
  std::vector<int64_t> bucket_segment_bytes;  // by bucket: size of a replica's segment; empty with one replica

  // With shard_mode gather and several shard ranks.
  bool gathers = false;
  std::vector<ShardLayout> shard_layouts;  // by parameter
  std::vector<GatherBytes> gather_bytes_of_rank;
  std::vector<SliceCounts> slice_counts_of_rank;  // on a device

  const Block& block(int64_t index) const { return At(blocks, index); }
  const Param& param(const Block& block) const { return At(params, block.param); }
  const Settings& group(const Block& block) const { return At(groups, block.group); }
  const Settings& group(const Param& param) const { return At(groups, param.desc.group); }
  // Returns whether some group has state_rounding or param_rounding stochastic.
  bool rounds_stochastically() const {
    return std::any_of(groups.begin(), groups.end(),
                       [](const Settings& group) { return group.rounds_stochastically(); });
  }
  // Requires gathers.
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

  // The number of sets of exchange buffers. On a device with several buckets there are two, so that one bucket is
  // exchanged while the next one is computed. Bucket k uses set k % exchange_sets().
  int64_t exchange_sets() const { return placement.device != DeviceType::kCpu && bucket_count > 1 ? 2 : 1; }
  // Returns whether replicas on a device agree on a step in a separate exchange, before any of them writes anything.
  // This is necessary with gathered blocks, because each replica checks only the blocks that it owns, and with several
  // buckets, because the second one is computed while the first is exchanged. Otherwise the replicas agree by the
  // headers of the updates.
  bool replicas_agree_first() const { return placement.replica_world > 1 && (gathers || bucket_count > 1); }
  int64_t state_bytes() const { return At(state_bytes_of_rank, rank()); }
  const GatherBytes& gather_bytes() const { return At(gather_bytes_of_rank, rank()); }
  // Return the size of the buffers that hold the segments of all ranks in the largest exchange between replicas: in one
  // set, and in all sets.
  int64_t ReplicaSetBytes() const;
  int64_t ReplicaBufferBytes() const { return exchange_sets() * ReplicaSetBytes(); }
};

// Collects groups and parameters, and computes a PlanData from them.
class Plan {
 public:
  // Returns the bytes of workspace that the backend allocates on a rank (see PlanData::rank). blocks: the blocks that
  // the rank owns.
  using WorkspaceBytes = int64_t (*)(const PlanData& plan, size_t rank, const std::vector<const Block*>& blocks);

  static Status Create(const Config& config, const Placement& placement, WorkspaceBytes workspace_bytes,
                       std::unique_ptr<Plan>* out);

  Status AddGroup(const Config& config, int* group);
  Status AddParam(ParamDesc desc, int* index);
  // Adds the shard of a parameter that another shard rank holds. Only the fields of `desc` that describe a shard are
  // used.
  Status AddShard(int param, int shard_rank, const ParamDesc& desc);
  // Returns the number of dims of a parameter, or 0 if it does not exist.
  int DimsOf(int param) const;
  // Computes blocks, owners and byte counts. Nothing can be added afterwards.
  Status Finish();

  bool finished() const { return finished_ != nullptr; }
  Status CheckFinished() const;
  std::shared_ptr<const PlanData> data() const { return finished_; }

  // Reports the bytes of "state", "workspace", "total" or "comm" of a rank; -1 is this rank. With the suffix
  // ".all_gather" on "workspace", "total" or "comm", assumes a communicator without all-to-all.
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
