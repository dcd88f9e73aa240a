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

using SetupOfRank = std::function<StepFixture::Setup(const Communicator&)>;

// The setup of replicas that divide the blocks of kSteppedShapes.
inline SetupOfRank SetupOfReplicas(const OptionKeys& keys) {
  return [keys](const Communicator& comm) {
    return StepFixture::Setup{.keys = keys,
                              .params = StepFixture::Describe(kSteppedShapes),
                              .placement = ReplicaPlacement(comm.rank(), comm.world())};
  };
}
// The setup of shards that divide the elements of kSteppedShapes.
inline SetupOfRank SetupOfShards(const OptionKeys& keys) {
  return [keys](const Communicator& comm) { return ShardRank::SetupOf(comm, keys); };
}
// The setup of ranks that each have parameters of these shapes, and whose plans have only one rank.
inline SetupOfRank SetupOfCopies(const std::vector<std::vector<int64_t>>& shapes, const OptionKeys& keys = kAllStates) {
  return [shapes, keys](const Communicator&) {
    return StepFixture::Setup{.keys = keys, .params = StepFixture::Describe(shapes)};
  };
}

// An optimizer that is saved and loaded together with those of other ranks.
struct CheckpointRank : StepFixture {
  CheckpointRank(const std::shared_ptr<Communicator>& comm, const SetupOfRank& setup, const std::string& directory)
      : StepFixture(setup(*comm)) {
    call.optimizers = states();
    call.world = comm.get();
    call.directory = directory;
  }

  CheckpointCall call;
};

// The ranks of a job. Each rank is a thread.
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
