// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Saves random models with a job of one layout, and loads them with a job of another layout. expected_states.cc
// computes the position of each element of a block from the plan, independently of the library's code for
// checkpoints.
#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>

#include "tests/capture.h"
#include "tests/checkpoint/faults/files.h"
#include "tests/checkpoint/reshard/expected_states.h"
#include "tests/checkpoint/reshard/random_model.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

// Counts of the cases that the random models covered: state entries of blocks that the checkpoint has (same_blocks) or
// lacks (other_blocks), empty shards, loads that must fail (refused), and loads into states that the test has
// overwritten (overwritten). The test fails if a case occurred too rarely.
struct Seen {
  int64_t same_blocks = 0, other_blocks = 0, empty_shards = 0, refused = 0, overwritten = 0;
};

using Bytes = std::vector<char>;

class ModelJob {
 public:
  explicit ModelJob(const RandomModel::World& world) : grid(world.spec, world.replicas, world.shards) {
    RequireCreate(&grid);
    for (int rank = 0; rank < grid.world(); ++rank) entries.push_back(EntriesOf(grid[rank], grid.spec(rank).params));
    groups = static_cast<int>(world.spec.groups.size()) + 1;
  }

  template <typename Visit>
  void ForEach(Visit&& visit) {
    for (int rank = 0; rank < grid.world(); ++rank) {
      for (const PlacedEntry& entry : entries[static_cast<size_t>(rank)]) visit(grid[rank], entry);
    }
  }

  void Write(uint64_t salt) {
    ForEach([&](const Rank& rank, const PlacedEntry& entry) {
      REQUIRE(WriteBytes(rank, entry, ExpectedBytes(entry, salt)));
    });
    for (int rank = 0; rank < grid.world(); ++rank) {
      for (int g = 0; g < groups; ++g) SetSteps(grid[rank], g, StepsOfGroup(salt, g));
    }
  }
  static int64_t StepsOfGroup(uint64_t salt, int group) { return static_cast<int64_t>(salt % 1000) + 7 * group; }

  Grid grid;
  std::vector<std::vector<PlacedEntry>> entries;  // by rank
  int groups = 1;
};

void CheckLoaded(ModelJob* job, uint64_t salt, const std::set<std::string>& saved_blocks,
                 const std::map<std::pair<const Rank*, int64_t>, Bytes>& initial) {
  job->ForEach([&](const Rank& rank, const PlacedEntry& entry) {
    const Bytes bytes = ReadBytes(rank, entry);
    const bool is_carried_over = entry.is_elementwise() || saved_blocks.contains(entry.block());
    CAPTURE_ALL(entry.block(), entry.state);
    CHECK(bytes == (is_carried_over ? ExpectedBytes(entry, salt) : initial.at({&rank, entry.index})));
  });
  for (int rank = 0; rank < job->grid.world(); ++rank) {
    for (int g = 0; g < job->groups; ++g) CHECK(StepsOf(job->grid[rank], g) == ModelJob::StepsOfGroup(salt, g));
  }
}

void CheckModel(uint64_t seed, const Scratch& scratch, Seen* seen) {
  CAPTURE(seed);
  const uint64_t salt = seed * 2 + 1;
  RandomModel model(seed);
  const std::string directory = scratch / std::to_string(seed);
  std::set<std::string> saved_blocks;
  {
    ModelJob saver(model.DrawWorld(false, "error"));
    saver.Write(salt);
    saver.ForEach([&](const Rank&, const PlacedEntry& entry) { saved_blocks.insert(entry.block()); });
    for (int rank = 0; rank < saver.grid.world(); ++rank) {
      for (const ParamSpec& param : saver.grid.spec(rank).params) seen->empty_shards += param.Elements() == 0 ? 1 : 0;
    }
    RequireSave(&saver.grid, directory);
  }
  const bool resets = !model.OneIn(4);
  ModelJob loader(model.DrawWorld(true, resets ? "reset" : "error"));
  std::map<std::pair<const Rank*, int64_t>, Bytes> initial;
  bool is_same = true;
  loader.ForEach([&](const Rank& rank, const PlacedEntry& entry) {
    initial[{&rank, entry.index}] = ReadBytes(rank, entry);
    const bool saved = saved_blocks.contains(entry.block());
    is_same = is_same && saved;
    ++(saved ? seen->same_blocks : seen->other_blocks);
  });
  if (model.OneIn(2)) {
    loader.Write(salt + 1);
    ++seen->overwritten;
  }
  const auto before = Everything(&loader.grid);
  loader.grid.Load(directory);
  if (resets || is_same) {
    CHECK_MESSAGE(loader.grid.All(SHAMPOO_OK), loader.grid.Errors());
    CheckLoaded(&loader, salt, saved_blocks, initial);
  } else {
    ++seen->refused;
    CheckFailed(&loader.grid, SHAMPOO_E_INVALID, {"on_block_mismatch"});
    CHECK(Everything(&loader.grid) == before);
  }
  CHECK(loader.grid.timeouts() == 0);
  RemoveAll(directory);
}

void CheckModels(uint64_t first, uint64_t last) {
  const Scratch scratch;
  Seen seen;
  for (uint64_t seed = first; seed < last; ++seed) CheckModel(seed, scratch, &seen);
  const auto count = static_cast<int64_t>(last - first);
  CHECK(seen.same_blocks > 10 * count);
  CHECK(seen.other_blocks > 10 * count);
  CHECK(seen.empty_shards > count / 2);
  CHECK(seen.refused > count / 10);
  CHECK(seen.overwritten > count / 4);
}

TEST_CASE(
    "jobs of other layouts load all elementwise states of 100 random models, and factor matrices where blocks match") {
  CheckModels(0, 100);
}

TEST_SUITE("long") {
  TEST_CASE("jobs of other layouts load all elementwise states of 2000 random models") { CheckModels(0, 2000); }
}

}  // namespace
}  // namespace shampoo_test
