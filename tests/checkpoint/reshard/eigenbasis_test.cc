// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of checkpoints of the methods that have eigenbases: soap and kl_shampoo. After a load, a run must continue with
// bit-identical results. If the optimizer that loads has other blocks, the load restores only the states of blocks
// without factor matrices.
#include <doctest/doctest.h>

#include <string>

#include "tests/capture.h"
#include "tests/checkpoint/faults/files.h"
#include "tests/checkpoint/reshard/trainee.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

const std::vector<Keys> kEigenbasisMethods = {"method=soap", "method=soap factor_correction=kl", "method=kl_shampoo"};

RankSpec EigenbasisModel(const Keys& keys) {
  return {.keys = keys + "precondition_frequency=3 max_preconditioner_dim=5",
          .params = {{"weight", {9, 7}}, {"bias", {41}}}};
}

TEST_CASE("a run of soap or kl_shampoo that is saved after any step continues with bit-identical results") {
  for (const Keys& method : kEigenbasisMethods) {
    // Step 1 only initializes the eigenbases. Step 4, which makes the third update, refreshes them for the first time.
    for (const int stop : {1, 2, 4}) {
      CAPTURE_ALL(method, stop);
      const Scratch scratch;
      Trainee run(EigenbasisModel(method));
      TrainAndSave(&run, stop, scratch / "checkpoints");
      Trainee resumed(EigenbasisModel(method));
      RequireLoad(&resumed.rank, scratch / "checkpoints");
      resumed.TakeParams(run.Params());
      CHECK(Everything(resumed.rank) == Everything(run.rank));
      run.Train(stop + 1, stop + 5);
      resumed.Train(stop + 1, stop + 5);
      RequireOk(resumed.rank);
      CHECK(Everything(resumed.rank) == Everything(run.rank));
    }
  }
}

TEST_CASE("if one part of a parameter has no factor matrix, a load of factor matrices of the whole parameter fails") {
  for (const Keys& method : kEigenbasisMethods) {
    CAPTURE(method);
    RankSpec spec = EigenbasisModel(method + "on_block_mismatch=reset");
    spec.keys = spec.keys + "max_preconditioner_dim=16";
    spec.params = {{"weight", {8, 7}}};
    const Scratch scratch;
    Trainee saver(spec);
    TrainAndSave(&saver, 3, scratch / "checkpoints");
    spec.keys = spec.keys + "skip_dim_size=5";
    spec.params[0].row_splits = {2, 6};  // only the first part has a factor matrix
    Trainee loader(spec);
    CHECK(StatesOf(loader.rank).contains("weight/0/factor.0"));
    CHECK(!StatesOf(loader.rank).contains("weight/1/factor.0"));
    CheckRefused(&loader.rank, scratch / "checkpoints", SHAMPOO_E_INVALID,
                 {"\"weight\" was saved with factor matrices, but one of its blocks has none"});
  }
}

TEST_CASE("a load on another number of ranks restores gradient_count of blocks without factor matrices") {
  for (const Keys& method : kEigenbasisMethods) {
    CAPTURE(method);
    RankSpec spec = EigenbasisModel(method + "on_block_mismatch=reset");
    spec.params = {{"bias", {41}}};
    const Scratch scratch;
    Grid whole(spec, 1, 1);
    Grid halves(spec, 1, 2);
    RequireStart(&whole);
    RequireStart(&halves);
    RunSteps(&whole, 1, 3);
    RequireSave(&whole, scratch / "checkpoints");
    RequireLoad(&halves, scratch / "checkpoints");
    halves.SetParams(whole[0].w);
    // The bias corrections depend on gradient_count. If gradient_count were 0, step 4 would not update the parameter.
    for (int rank = 0; rank < 2; ++rank) {
      const States states = StatesOf(halves[rank]);
      CHECK(states.at("bias/0/gradient_count") == std::vector<char>{3, 0, 0, 0, 0, 0, 0, 0});
    }
    RunSteps(&whole, 4, 6);
    RunSteps(&halves, 4, 6);
    CHECK(halves.AllHold(whole[0].w));
    // One rank loads the checkpoint of the two halves.
    RequireSave(&halves, scratch / "halves");
    Grid joined(spec, 1, 1);
    RequireCreate(&joined);
    RequireLoad(&joined, scratch / "halves");
    CHECK(StatesOf(joined[0]) == StatesOf(whole[0]));
  }
}

TEST_CASE("on_block_mismatch=reset initializes all states of blocks whose saved eigenbases have other sizes") {
  for (const Keys& method : kEigenbasisMethods) {
    CAPTURE(method);
    const Scratch scratch;
    Trainee run(EigenbasisModel(method));
    TrainAndSave(&run, 4, scratch / "checkpoints");
    RankSpec other = EigenbasisModel(method);
    other.keys.emplace_back("max_preconditioner_dim", "4");
    Trainee refused(other);
    CheckRefused(&refused.rank, scratch / "checkpoints", SHAMPOO_E_INVALID, {"on_block_mismatch"});
    other.keys.emplace_back("on_block_mismatch", "reset");
    Trainee loader(other);
    const States initial = StatesOf(loader.rank);
    RequireLoad(&loader.rank, scratch / "checkpoints");
    const States saved = StatesOf(run.rank);
    for (const auto& [key, bytes] : StatesOf(loader.rank)) {
      CAPTURE(key);
      const bool is_reset = key.rfind("weight/", 0) == 0;
      CHECK(bytes == (is_reset ? initial.at(key) : saved.at(key)));
    }
  }
}

TEST_CASE("a load of eigenbases of other dims fails, and the error names precondition_dims and skip_dim_size") {
  const Scratch scratch;
  RankSpec spec = EigenbasisModel(kEigenbasisMethods[0]);
  spec.params = {{"weight", {5, 4}}};
  Trainee run(spec);
  TrainAndSave(&run, 2, scratch / "all");
  spec.keys.emplace_back("precondition_dims", "smaller");
  Trainee smaller(spec);
  TrainAndSave(&smaller, 2, scratch / "smaller");
  const auto check_refused = [&](const char* value, const char* checkpoint, const char* difference) {
    RankSpec other = spec;
    other.keys.emplace_back("precondition_dims", value);
    Trainee loader(other);
    CheckRefused(&loader.rank, scratch / checkpoint, SHAMPOO_E_INVALID,
                 {"\"weight\"", difference, "precondition_dims", "skip_dim_size", "saved value"});
  };
  check_refused("larger", "smaller", "with a factor matrix of dim");
  check_refused("all", "smaller", "no state \"factor.");
  check_refused("larger", "all", "with a factor matrix of dim");
  check_refused("smaller", "all", "with a factor matrix of dim");
}

}  // namespace
}  // namespace shampoo_test
