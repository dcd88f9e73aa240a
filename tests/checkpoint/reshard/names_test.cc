// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of the names of parameters, the paths of checkpoints, and the number of checkpoints that a save keeps.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "tests/checkpoint/faults/files.h"
#include "tests/checkpoint/reshard/trainee.h"
#include "tests/checkpoint/reshard/world.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

// Names that could be misinterpreted in a path, in JSON or in the key of a state entry, such as "a/0/momentum".
const char* const kNames[] = {"\"",
                              "\\",
                              "a/b",
                              "a",
                              "a/0",
                              "a/0/momentum",
                              "/",
                              "..",
                              "@3",
                              "line\nfeed",
                              "\t\x01\x1f\x7f",
                              " ",
                              "gewicht-ä",
                              "权重",
                              "\U0001F680",
                              "\u2028",
                              "{\"name\":1}",
                              "__metadata__",
                              "group.0",
                              "%s%n",
                              "\xf4\x8f\xbf\xbf"};

RankSpec OddNames(const Keys& more = {}) {
  RankSpec spec = SmallModel(more);
  spec.params.clear();
  for (const char* const name : kNames) spec.params.push_back({name, {3, 5}});
  return spec;
}

TEST_CASE("any valid UTF-8 is accepted as the name of a parameter") {
  const Scratch scratch;
  const std::string directory = scratch / "checkpoints";
  RankSpec spec = OddNames();
  Trainee saver(spec);
  TrainAndSave(&saver, 3, directory);
  std::swap(spec.params.front(), spec.params.back());
  Trainee loader(spec);
  RequireLoad(&loader.rank, directory);
  CHECK(StatesOf(loader.rank) == StatesOf(saver.rank));
  CHECK(StatesOf(loader.rank).size() == std::size(kNames) * 16);
  // The names are also accepted with shards. In a checkpoint, the key of a block of a shard contains a position, such
  // as "a/@3", instead of an index, such as "a/0".
  Grid grid(OddNames("on_block_mismatch=reset"), 1, 2);
  RequireCreate(&grid);
  RequireLoad(&grid, directory);
  RequireSave(&grid, directory);
  Trainee back(OddNames("on_block_mismatch=reset"));
  RequireLoad(&back.rank, directory);
  const States expected = StatesOf(saver.rank);
  for (const auto& [key, bytes] : StatesOf(back.rank)) {
    if (key.ends_with("momentum") || key.ends_with("filtered_grad") || key.ends_with("grafting")) {
      CHECK(bytes == expected.at(key));
    }
  }
}

TEST_CASE("a name that is not valid UTF-8 is rejected") {
  for (const char* const name : {"\x80", "a\xff", "\xc0\xaf", "\xc3", "\xc3(", "\xe2\x82", "\xed\xa0\x80",
                                 "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80"}) {
    RankSpec spec = SmallModel();
    spec.params[1].name = name;
    const Rank rank(spec);
    CHECK(rank.status == SHAMPOO_E_INVALID);
    CHECK(MissingWord(rank.error, {"name is not valid UTF-8", "store names in this encoding"}) == "");
  }
}

std::vector<std::string> CheckpointsIn(const std::string& directory) {
  std::vector<std::string> indexes;
  for (const std::string& name : NamesIn(directory)) {
    if (name.ends_with(".json")) indexes.push_back(name);
  }
  return indexes;
}

TEST_CASE("a save keeps checkpoint_keep checkpoints, and each can be loaded by the path of its index") {
  const Scratch scratch;
  Trainee saver(SmallModel("checkpoint_keep=3"));
  const std::string directory = scratch / "checkpoints";
  std::vector<States> states;
  for (int t = 1; t <= 5; ++t) {
    saver.Train(t, t);
    RequireSave(&saver.rank, directory);
    states.push_back(StatesOf(saver.rank));
  }
  CHECK(CheckpointsIn(directory) ==
        std::vector<std::string>{"checkpoint-000003.json", "checkpoint-000004.json", "checkpoint-000005.json"});
  CHECK(NamesIn(directory).size() == 6);
  Trainee loader(SmallModel());
  for (const int number : {4, 3, 5}) {
    RequireLoad(&loader.rank, directory + "/checkpoint-00000" + std::to_string(number) + ".json");
    CHECK(StepsOf(loader.rank, 0) == number);
    CHECK(StatesOf(loader.rank) == states[static_cast<size_t>(number) - 1]);
  }
  loader.rank.Load(directory + "/checkpoint-000003.json");
  loader.rank.Load(directory);
  CHECK(StepsOf(loader.rank, 0) == 5);
  // With checkpoint_keep=1, the default, a save removes all older checkpoints. The new checkpoint gets the next number.
  RequireSave(&loader.rank, directory);
  CHECK(NamesIn(directory) ==
        std::vector<std::string>{"checkpoint-000006.json", "checkpoint-000006.rank-00000-of-00001.safetensors"});
  // Other files are not removed.
  WriteFile(directory + "/checkpoint-000002.json.mine", "x");
  WriteFile(directory + "/checkpoint-2.json", "x");
  WriteFile(directory + "/notes.txt", "x");
  loader.rank.Save(directory);
  CHECK(NamesIn(directory) == std::vector<std::string>{"checkpoint-000002.json.mine", "checkpoint-000007.json",
                                                       "checkpoint-000007.rank-00000-of-00001.safetensors",
                                                       "checkpoint-2.json", "notes.txt"});
}

TEST_CASE("the largest checkpoint_keep of all optimizers and ranks applies") {
  const Scratch scratch;
  const std::string directory = scratch / "checkpoints";
  RankSpec other = SmallModel("checkpoint_keep=2");
  other.params = {{"other", {4, 4}}};
  Trainee first(SmallModel());
  Trainee second(other);
  shampoo_optimizer* const both[] = {first.optimizer(), second.optimizer(), first.optimizer()};
  for (int order = 0; order < 2; ++order) {
    for (int t = 0; t < 3; ++t) {
      REQUIRE(shampoo_save(both + order, 2, nullptr, directory.c_str(), nullptr) == SHAMPOO_OK);
    }
    CHECK(CheckpointsIn(directory).size() == 2);
    World world(2);
    world[order].opts = {first.optimizer()};
    world[1 - order].opts = {second.optimizer()};
    for (int t = 0; t < 3; ++t) world.Save(scratch / "of ranks");
    RequireOk(world);
    CHECK(CheckpointsIn(scratch / "of ranks").size() == 2);
    first.rank.Save(scratch / "of ranks");  // keeps one checkpoint, because `second` is absent
  }
}

TEST_CASE("a save creates its directory but no parent directories, and a load fails if its path has no checkpoint") {
  const Scratch scratch;
  Trainee saver(SmallModel());
  const auto fails = [&](bool saves, const std::string& path, const std::vector<std::string>& words) {
    CAPTURE(path);
    saves ? saver.rank.Save(path) : saver.rank.Load(path);
    CHECK(saver.rank.status == SHAMPOO_E_IO);
    CHECK(MissingWord(saver.rank.error, words) == "");
  };
  const std::string missing = scratch / "missing";
  fails(true, missing + "/checkpoints", {missing + "/checkpoints", "No such file or directory", "check the path"});
  fails(false, missing, {missing + " does not exist", "expected the directory", "the index of a checkpoint"});
  CHECK(NamesIn(scratch.path()).empty());
  const std::string empty = scratch / "empty";
  REQUIRE(mkdir(empty.c_str(), 0777) == 0);
  fails(false, empty, {empty + " has no checkpoint", "checkpoint-<number>.json", "shampoo_save"});
  // A save that is killed leaves files such as these two.
  WriteFile(empty + "/checkpoint-000004.json.tmp", "{");
  WriteFile(empty + "/checkpoint-000004.rank-00000-of-00001.safetensors", "x");
  fails(false, empty, {empty + " has only unfinished checkpoints"});
  const std::string file = scratch / "file";
  WriteFile(file, "something else");
  for (const std::string& path : {file, file + "/x"}) {
    fails(true, path, {path + ": Not a directory"});
    fails(false, path, {path});
  }
  CHECK(BytesOf(file) == "something else");
  // A path may end with a slash, may have non-ASCII characters, and may be relative.
  for (const std::string& name : {scratch / "slash/", scratch / "öffentlich \"1\"\n"}) {
    RequireSave(&saver.rank, name);
    RequireLoad(&saver.rank, name);
  }
  char before[4096];
  REQUIRE(getcwd(before, sizeof before) != nullptr);
  REQUIRE(chdir(scratch.path().c_str()) == 0);
  for (const char* const name : {"relative", "."}) {
    RequireSave(&saver.rank, name);
    RequireLoad(&saver.rank, name);
  }
  RequireLoad(&saver.rank, "checkpoint-000001.json");
  REQUIRE(chdir(before) == 0);
  // A save removes the files that a killed save has left. The new checkpoint gets the next number.
  saver.rank.Save(empty);
  CHECK(NamesIn(empty) ==
        std::vector<std::string>{"checkpoint-000005.json", "checkpoint-000005.rank-00000-of-00001.safetensors"});
}

}  // namespace
}  // namespace shampoo_test
