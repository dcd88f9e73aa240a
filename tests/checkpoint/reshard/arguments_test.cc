// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of the arguments of shampoo_save and shampoo_load. A wrong argument on one rank must cause the same error on
// all ranks, and no rank may wait forever.
#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "tests/capture.h"
#include "tests/checkpoint/faults/files.h"
#include "tests/checkpoint/reshard/trainee.h"
#include "tests/checkpoint/reshard/world.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

// Three replicas, and a World that calls shampoo_save and shampoo_load on them (see world.h).
class Replicas {
 public:
  Replicas() : world(3), grid_(SmallModel(), 3, 1) {
    RequireCreate(&grid_);
    grid_.FillGradients(1);
    RequireStep(&grid_);
    SetAll(nullptr);
  }
  void SetAll(const char* directory) {
    for (int rank = 0; rank < 3; ++rank) {
      world[rank] = {};
      world[rank].opts = {grid_[rank].optimizer};
      world[rank].directory = directory;
    }
  }
  Grid& grid() { return grid_; }

  World world;

 private:
  Grid grid_;
};

TEST_CASE("all ranks report which argument is wrong on which rank, and the next load succeeds") {
  struct Wrong {
    const char* words;
    std::function<void(World::Call*)> set;
  };
  const Wrong wrongs[] = {
      {"directory is NULL", [](World::Call* call) { call->directory = nullptr; }},
      {"directory is \"\": expected the path of a directory", [](World::Call* call) { call->directory = ""; }},
      {"count is -1: expected at least 0", [](World::Call* call) { call->count = -1; }},
      {"opts is NULL", [](World::Call* call) { call->passes_opts = false; }},
      {"opts[1] is NULL: expected an optimizer", [](World::Call* call) { call->opts.push_back(nullptr); }},
      {"parameter \"weight\" is in two optimizers of this rank, or one optimizer was passed twice",
       [](World::Call* call) { call->opts.push_back(call->opts[0]); }},
      {"stream is not NULL", [](World::Call* call) { call->stream = call; }},
  };
  const Scratch scratch;
  const std::string directory = scratch / "checkpoints";
  Replicas replicas;
  World& world = replicas.world;
  RequireSave(&world, directory);
  const auto names = NamesIn(directory);
  const auto before = Everything(&replicas.grid());
  for (const Wrong& wrong : wrongs) {
    for (int odd = 0; odd < 3; ++odd) {
      for (const bool saves : {true, false}) {
        CAPTURE_ALL(wrong.words, odd, saves);
        replicas.SetAll(directory.c_str());
        wrong.set(&world[odd]);
        saves ? world.Save() : world.Load();
        CheckFailed(&world, SHAMPOO_E_INVALID, {"rank " + std::to_string(odd) + ": ", wrong.words});
      }
    }
  }
  CHECK(NamesIn(directory) == names);
  CHECK(Everything(&replicas.grid()) == before);
  replicas.SetAll(directory.c_str());
  world.Load();
  RequireOk(world);
  CHECK(Everything(&replicas.grid()) == before);
}

TEST_CASE("shampoo_save and shampoo_load reject wrong arguments in a process without a communicator") {
  Trainee one(SmallModel());
  shampoo_optimizer* const opts[] = {one.optimizer(), nullptr};
  for (const auto& function : {&shampoo_save, &shampoo_load}) {
    const auto fails = [&](const char* words, shampoo_optimizer* const* passed, int32_t count, const char* directory,
                           void* stream = nullptr) {
      CHECK(function(passed, count, nullptr, directory, stream) == SHAMPOO_E_INVALID);
      CHECK(MissingWord(shampoo_last_error(), {words}) == "");
    };
    fails("opts is NULL", nullptr, 1, "x");
    fails("opts[1] is NULL", opts, 2, "x");
    CHECK(shampoo_optimizer_error(one.optimizer()) == std::string(shampoo_last_error()));
    fails("count is -1", opts, -1, "x");
    fails("directory is NULL", opts, 1, nullptr);
    fails("directory is \"\"", opts, 1, "");
    fails("stream is not NULL", opts, 1, "x", &one);
  }
}

TEST_CASE("a job of several ranks needs a communicator that has all ranks and uses host memory") {
  const Scratch scratch;
  const std::string directory = scratch / "checkpoints";
  Grid grid(SmallModel("shard_mode=gather"), 2, 2);
  RequireCreate(&grid);
  for (int rank = 0; rank < 4; ++rank) {
    for (const auto& function : {&shampoo_save, &shampoo_load}) {
      CHECK(function(&grid[rank].optimizer, 1, nullptr, directory.c_str(), nullptr) == SHAMPOO_E_INVALID);
      CHECK(MissingWord(shampoo_last_error(), {"world is NULL, but an optimizer has 4 ranks",
                                               "pass a communicator of all ranks of the job"}) == "");
    }
  }
  World half(2);  // the job has 2 replicas of 2 shards each, and therefore 4 ranks
  World device(4, SHAMPOO_CUDA);
  for (int rank = 0; rank < 4; ++rank) {
    half[rank % 2].opts = {grid[rank].optimizer};
    device[rank].opts = {grid[rank].optimizer};
  }
  half.Save(directory);
  CheckFailed(&half, SHAMPOO_E_INVALID, {"world has 2 ranks, but an optimizer has 4 ranks"});
  device.Save(directory);
  CheckFailed(&device, SHAMPOO_E_UNSUPPORTED, {"GPU memory", "SHAMPOO_CPU"});
  CHECK(NamesIn(scratch.path()).empty());
}

TEST_CASE("a rank may have no optimizer, and a job may have no parameters") {
  const Scratch scratch;
  Trainee saver(SmallModel());
  saver.Train(1, 2);
  for (int odd = 0; odd < 3; ++odd) {
    World world(3);
    world[odd].opts = {saver.optimizer()};
    const std::string directory = scratch / std::to_string(odd);
    RequireSave(&world, directory);
    Trainee loader(SmallModel());
    World other(2);
    other[1].opts = {loader.optimizer()};
    RequireLoad(&other, directory);
    CHECK(StatesOf(loader.rank) == StatesOf(saver.rank));
  }
  World nobody(2);
  RequireSave(&nobody, scratch / "nobody");
  RequireLoad(&nobody, scratch / "nobody");
  CHECK(shampoo_save(nullptr, 0, nullptr, (scratch / "nobody").c_str(), nullptr) == SHAMPOO_OK);
  CHECK(shampoo_load(nullptr, 0, nullptr, (scratch / "nobody").c_str(), nullptr) == SHAMPOO_OK);
  RankSpec empty = SmallModel();
  empty.params = {{"nothing", {0, 4}}, {"no rows", {5, 0}}};
  Trainee without(empty);
  RequireSave(&without.rank, scratch / "empty");
  RequireLoad(&without.rank, scratch / "empty");
}

}  // namespace
}  // namespace shampoo_test
