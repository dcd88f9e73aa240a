// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/base/status.h"
#include "core/config/config.h"
#include "core/plan/block.h"

namespace shampoo {

struct Placement {
  int threads = 0;  // 0: as the key threads says
  int replica_rank = 0;
  int replica_world = 1;
  int shard_rank = 0;
  int shard_world = 1;
};

// What is computed from shapes and settings alone, and holds from then on; shared by a plan and its optimizers.
struct PlanData {
  Placement placement;
  int threads = 1;                                                     // resolved
  std::vector<Settings> groups;                                        // [0] is the plan's own
  std::vector<std::vector<std::pair<std::string, std::string>>> keys;  // of each group, as they must be on all ranks
  std::vector<Param> params;
  std::vector<Block> blocks;                 // by parameter, then by position
  std::vector<int64_t> state_bytes_of_rank;  // arena of each replica rank
  std::vector<int64_t> workspace_bytes_of_rank;
  std::vector<int64_t> bucket_segment_bytes;  // of each exchange of a step; none where there is one rank

  int64_t GatherBufferBytes() const;  // for the largest exchange, segments of all ranks
};

// Blocks, owners and byte counts of a set of parameters. It never sees a pointer.
class Plan {
 public:
  // Bytes of workspace that the backend allocates for these blocks on so many threads. largest_dim: of any block of the
  // plan, those of other ranks among them.
  using WorkspaceBytes = int64_t (*)(const std::vector<const Block*>& blocks, int64_t largest_dim,
                                     const std::vector<Settings>& groups, int threads);

  static Status Create(const Config& config, const Placement& placement, WorkspaceBytes workspace_bytes,
                       std::unique_ptr<Plan>* out);

  Status AddGroup(const Config& config, int* group);
  Status AddParam(ParamDesc desc, int* index);
  Status Finish();

  bool finished() const { return finished_ != nullptr; }
  Status CheckFinished() const;
  std::shared_ptr<const PlanData> data() const { return finished_; }

  // what: "state", "workspace", "total", "comm".
  Status Bytes(int rank, std::string_view what, int64_t* bytes) const;

 private:
  Plan(const Config& config, WorkspaceBytes workspace_bytes) : config_(config), workspace_bytes_(workspace_bytes) {}
  Status CheckOpen() const;
  Status AddSettings(const Config& config);
  Status MakeBlocks(PlanData* made) const;
  Status CheckArithmetic(const PlanData& made) const;
  void PlaceStates(PlanData* made) const;

  Config config_;
  WorkspaceBytes workspace_bytes_;
  std::unordered_set<std::string> names_;
  std::unique_ptr<PlanData> open_ = std::make_unique<PlanData>();
  std::shared_ptr<const PlanData> finished_;
};

}  // namespace shampoo
