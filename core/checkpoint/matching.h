// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/checkpoint/index.h"
#include "core/state/optimizer_state.h"

namespace shampoo {

// Where the states of a rank's optimizers come from in a checkpoint. By name and place alone: which rank had a block,
// and how it was numbered, is of no account.
class Matching {
 public:
  // A block that was saved as it is here.
  struct Direct {
    OptimizerState* optimizer;
    const StoredBlock* stored;
    std::vector<const StateEntry*> states;
  };
  // Blocks of a parameter that were cut in another way: their elementwise states are put together from those that were
  // saved, and their factor matrices start anew.
  struct Recut {
    OptimizerState* optimizer;
    int param = 0;         // of the plan
    int stored_param = 0;  // of the index
    std::vector<int64_t> blocks;
    std::vector<const StateEntry*> states;  // of these blocks: the elementwise ones
    std::vector<const StoredBlock*> sources;
  };
  struct Steps {
    OptimizerState* optimizer;
    int group;
    int64_t steps;
  };

  explicit Matching(std::span<OptimizerState* const> optimizers);
  // Of those parameters alone of which this rank keeps states.
  bool Wants(const CheckpointIndex& index, const StoredBlock& block) const;
  // Fails, with a text for each rule of docs/checkpoints.md, where the checkpoint is not one of these optimizers.
  Status Match(const CheckpointIndex& index);

  const std::vector<Direct>& direct() const { return direct_; }
  const std::vector<Recut>& recut() const { return recut_; }
  const std::vector<Steps>& steps() const { return steps_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  bool Knows(const std::string& param) const { return own_.contains(param); }
  int64_t reset_blocks() const;

 private:
  struct Own {
    OptimizerState* optimizer;
    int param;
    bool keeps_states = false;  // on this rank
  };
  struct StatesOfBlock {
    int64_t block;
    std::vector<const StateEntry*> states;
  };
  using StoredByFirst = std::map<std::pair<int, int64_t>, const StoredBlock*>;

  Status MatchParams(const CheckpointIndex& index);
  Status MatchGroup(const CheckpointIndex& index, OptimizerState* optimizer, int group);
  Status CompareConfigs(const OptimizerState& optimizer, int group, const StoredGroup& stored);
  Status IndexBlocks(const CheckpointIndex& index);
  Status MatchBlocks(const CheckpointIndex& index, OptimizerState* optimizer);
  Status CheckStates(const CheckpointIndex& index, const OptimizerState& optimizer, const StatesOfBlock& own,
                     const StoredBlock& stored, bool elementwise_alone);
  Status AddRecut(const CheckpointIndex& index, OptimizerState* optimizer, const StatesOfBlock& own);
  Status CheckRecuts(const CheckpointIndex& index) const;

  std::span<OptimizerState* const> optimizers_;
  std::map<std::string, Own, std::less<>> own_;
  std::map<std::string, int, std::less<>> stored_params_;
  StoredByFirst stored_blocks_;
  std::map<int, int64_t> longest_;  // of a parameter's stored blocks: elements from the first to the last
  std::unordered_set<const StoredBlock*> sources_;  // of the last of recut_
  std::map<std::string, int64_t> unused_;           // states that were saved and are not asked for: in so many blocks
  std::vector<Direct> direct_;
  std::vector<Recut> recut_;
  std::vector<Steps> steps_;
  std::vector<std::string> warnings_;
};

}  // namespace shampoo
