// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/base/device_type.h"
#include "core/base/status.h"
#include "core/config/config.h"
#include "core/plan/block.h"
#include "core/plan/cuts.h"

namespace shampoo {

struct Placement {
  int threads = 0;  // 0: as the key threads says
  int replica_rank = 0;
  int replica_world = 1;
  int shard_rank = 0;
  int shard_world = 1;
  DeviceType device = DeviceType::kCpu;
};

// With shard_mode gather: memory of a rank for the exchanges between shards, and what it sends in a step.
struct GatherBytes {
  int64_t held = 0;           // to send of the rank's shards
  int64_t owned = 0;          // received for the blocks that it owns, and sent back
  int64_t whole = 0;          // these blocks
  int64_t arrived = 0;        // updates for the rank's shards, from all replicas
  int64_t by_all_gather = 0;  // on top, for a communicator without all-to-all
  int64_t sent = 0;
  int64_t sent_by_all_gather = 0;

  int64_t buffers() const { return held + owned + whole + arrived; }
};

// What is computed from shapes and settings alone, and holds from then on; shared by a plan and its optimizers.
struct PlanData {
  Placement placement;
  int threads = 1;                                                     // resolved
  std::vector<Settings> groups;                                        // [0] is the plan's own
  std::vector<std::vector<std::pair<std::string, std::string>>> keys;  // of each group, as they must be on all ranks
  std::vector<Param> params;
  std::vector<Block> blocks;                 // by parameter, then by position
  std::vector<int64_t> state_bytes_of_rank;  // arena of each rank that blocks are dealt out to
  std::vector<int64_t> workspace_bytes_of_rank;
  size_t bucket_count = 1;
  std::vector<int64_t> bucket_segment_bytes;  // of each exchange between replicas; none where there is one rank

  // With shard_mode gather over several shard ranks.
  bool gathers = false;
  std::vector<Cuts> cuts;  // by parameter
  std::vector<GatherBytes> gather_bytes_of_rank;

  // The ranks that blocks are dealt out to: replicas, or replicas and, within each, shards.
  int ranks() const { return placement.replica_world * (gathers ? placement.shard_world : 1); }
  int rank() const {
    return gathers ? placement.replica_rank * placement.shard_world + placement.shard_rank : placement.replica_rank;
  }
  bool Owns(const Block& block) const {
    return block.owner == placement.replica_rank && block.shard_owner == placement.shard_rank;
  }
  int64_t state_bytes() const { return state_bytes_of_rank[static_cast<size_t>(rank())]; }
  const GatherBytes& gather_bytes() const { return gather_bytes_of_rank[static_cast<size_t>(rank())]; }
  int64_t ReplicaBufferBytes() const;  // for the largest exchange between replicas, segments of all ranks
};

// Blocks, owners and byte counts of a set of parameters. It never sees a pointer.
class Plan {
 public:
  // Bytes of workspace that the backend allocates on a rank that owns these blocks of the plan.
  using WorkspaceBytes = int64_t (*)(const PlanData& plan, const std::vector<const Block*>& blocks);

  static Status Create(const Config& config, const Placement& placement, WorkspaceBytes workspace_bytes,
                       std::unique_ptr<Plan>* out);

  Status AddGroup(const Config& config, int* group);
  Status AddParam(ParamDesc desc, int* index);
  // What another shard rank holds of a parameter: of desc, the fields of a shard.
  Status AddShard(int param, int shard_rank, const ParamDesc& desc);
  int DimsOf(int param) const;  // 0 where there is no such parameter
  Status Finish();

  bool finished() const { return finished_ != nullptr; }
  Status CheckFinished() const;
  std::shared_ptr<const PlanData> data() const { return finished_; }

  // what: "state", "workspace", "total", "comm"; the last three with ".all_gather", too.
  Status Bytes(int rank, std::string_view what, int64_t* bytes) const;

 private:
  Plan(const Config& config, WorkspaceBytes workspace_bytes) : config_(config), workspace_bytes_(workspace_bytes) {}
  Status CheckOpen() const;
  Status AddSettings(const Config& config);
  Status FindCuts(PlanData* made) const;
  Status MakeBlocks(PlanData* made) const;
  Status CheckArithmetic(const PlanData& made) const;
  void PlaceStates(PlanData* made) const;

  Config config_;
  WorkspaceBytes workspace_bytes_;
  std::unordered_set<std::string> names_;
  std::vector<std::map<int, ParamDesc>> told_;  // by parameter: shards of other ranks
  std::unique_ptr<PlanData> open_ = std::make_unique<PlanData>();
  std::shared_ptr<const PlanData> finished_;
};

}  // namespace shampoo
