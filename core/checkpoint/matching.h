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

// Finds the states of a rank's optimizers in a checkpoint. Blocks are matched by the name of the parameter and the
// place (block_place.h), independently of ranks and block numbers.
class Matching {
 public:
  // A block of this rank that is loaded from a saved block with exactly the same elements.
  struct Direct {
    OptimizerState* optimizer;
    const StoredBlock* stored;
    std::vector<const StateEntry*> states;  // all states of the block
  };
  // A parameter with blocks of this rank that have no Direct: no saved block has the same elements, or the saved block
  // with the same elements lacks the factor matrices. A load reads the elementwise states of these blocks from all
  // saved blocks that share elements with them, and initializes the factor matrices of these blocks again.
  struct ReshardedParam {
    OptimizerState* optimizer;
    int param = 0;                            // index in PlanData::params
    int stored_param = 0;                     // index in CheckpointIndex::params
    std::vector<int64_t> blocks;              // indices in PlanData::blocks
    std::vector<const StateEntry*> states;    // those states of `blocks` that are StateEntry::elementwise()
    std::vector<const StoredBlock*> sources;  // saved blocks that share elements with `blocks`
  };
  // The saved step counter of a group.
  struct Steps {
    OptimizerState* optimizer;
    int group;
    int64_t steps;
  };

  explicit Matching(std::span<OptimizerState* const> optimizers);
  // Returns whether a saved block belongs to a parameter of which this rank has states.
  bool Needs(const CheckpointIndex& index, const StoredBlock& block) const;
  // Finds the states that the functions below return. Fails if the checkpoint does not match the optimizers
  // (docs/checkpoints.md has the rules).
  Status Match(const CheckpointIndex& index);

  const std::vector<Direct>& direct() const { return direct_; }
  const std::vector<ReshardedParam>& resharded() const { return resharded_; }
  const std::vector<Steps>& steps() const { return steps_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  bool HasParam(const std::string& param) const { return own_.contains(param); }
  // Returns the number of blocks in resharded().
  int64_t reset_blocks() const;

 private:
  // A parameter of this rank's optimizers.
  struct Own {
    OptimizerState* optimizer;
    int param;
    bool has_states = false;  // whether this rank has states of the parameter
  };
  struct StatesOfBlock {
    int64_t block;
    std::vector<const StateEntry*> states;
  };
  // Saved blocks by the index of their parameter in CheckpointIndex::params and by BlockPlace::first().
  using StoredByFirst = std::map<std::pair<int, int64_t>, const StoredBlock*>;

  Status MatchParams(const CheckpointIndex& index);
  Status MatchGroup(const CheckpointIndex& index, OptimizerState* optimizer, int group);
  Status CompareConfigs(const OptimizerState& optimizer, int group, const StoredGroup& stored);
  Status IndexBlocks(const CheckpointIndex& index);
  Status MatchBlocks(const CheckpointIndex& index, OptimizerState* optimizer);
  // Checks that the block of `own` can load its states from `stored`. is_resharded: whether `stored` is one of
  // ReshardedParam::sources, from which the block does not load all of its states.
  Status CheckStates(const CheckpointIndex& index, const OptimizerState& optimizer, const StatesOfBlock& own,
                     const StoredBlock& stored, bool is_resharded) const;
  // Counts the states that `stored` has and the block of `own` does not use.
  void CountUnused(const OptimizerState& optimizer, const StatesOfBlock& own, const StoredBlock& stored);
  Status AddResharded(const CheckpointIndex& index, OptimizerState* optimizer, const StatesOfBlock& own);
  Status CheckResharded(const CheckpointIndex& index) const;

  std::span<OptimizerState* const> optimizers_;
  std::map<std::string, Own, std::less<>> own_;            // by name of the parameter
  std::map<std::string, int, std::less<>> stored_params_;  // by name: the index in CheckpointIndex::params
  StoredByFirst stored_blocks_;
  // By index in CheckpointIndex::params: the maximum of last - first + 1 over the saved blocks of the parameter. first
  // and last are the positions of a block's first and last elements in the flattened parameter.
  std::map<int, int64_t> longest_;
  std::unordered_set<const StoredBlock*> sources_;  // the sources of resharded_.back()
  std::map<std::string, int64_t> unused_;  // by name of a state that is not loaded: number of saved blocks with it
  std::vector<Direct> direct_;
  std::vector<ReshardedParam> resharded_;
  std::vector<Steps> steps_;
  std::vector<std::string> warnings_;
};

}  // namespace shampoo
