// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/checkpoint/load.h"
#include "core/checkpoint/save.h"
#include "tests/core/stepping_ranks.h"

namespace shampoo {

// A function that returns the setup of a rank: its parameters, its keys, and its place among the ranks.
using SetupOfRank = std::function<StepFixture::Setup(const Communicator&)>;

// Makes setups of replicas. All replicas have the parameters of kSteppedShapes (stepping_ranks.h), and each replica
// owns some of the blocks.
inline SetupOfRank SetupOfReplicas(const OptionKeys& keys) {
  return [keys](const Communicator& comm) {
    return StepFixture::Setup{.keys = keys,
                              .params = StepFixture::Describe(kSteppedShapes),
                              .placement = ReplicaPlacement(comm.rank(), comm.world())};
  };
}
// Makes setups of shard ranks. Each rank has some of the elements of the parameters of kSteppedShapes.
inline SetupOfRank SetupOfShards(const OptionKeys& keys) {
  return [keys](const Communicator& comm) { return ShardRank::SetupOf(comm, keys); };
}
// Makes equal setups. Each rank has whole parameters of these shapes, and a plan for a single rank.
inline SetupOfRank SetupOfCopies(const std::vector<std::vector<int64_t>>& shapes, const OptionKeys& keys = kAllStates) {
  return [shapes, keys](const Communicator&) {
    return StepFixture::Setup{.keys = keys, .params = StepFixture::Describe(shapes)};
  };
}

// The optimizer of one rank. All ranks save and load their optimizers together.
struct CheckpointRank : StepFixture {
  CheckpointRank(const std::shared_ptr<Communicator>& comm, const SetupOfRank& setup, const std::string& directory)
      : StepFixture(setup(*comm)) {
    call.optimizers = states();
    call.world = comm.get();
    call.directory = directory;
  }

  CheckpointCall call;
};

// Ranks that save and load together. Each rank is a thread.
struct CheckpointJob : RanksOnThreads<CheckpointRank> {
  CheckpointJob(int world, const SetupOfRank& setup, const std::string& directory)
      : RanksOnThreads(world, setup, directory) {}
  std::vector<Status> Save() {
    return Run([](int, CheckpointRank& rank) { return SaveCheckpoint(rank.call, {}); });
  }
  std::vector<Status> Load() {
    return Run([](int, CheckpointRank& rank) { return LoadCheckpoint(rank.call); });
  }
};

}  // namespace shampoo
