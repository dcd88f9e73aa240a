// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of loads into an optimizer that has made steps: loads that fail, loads that discard an error of an earlier
// step, and loads into arenas that the caller has bound.
#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "tests/checkpoint/faults/files.h"
#include "tests/checkpoint/reshard/trainee.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

// Changes a byte near the end of the only state file.
void Spoil(const std::string& directory) {
  const std::string path = directory + "/checkpoint-000001.rank-00000-of-00001.safetensors";
  std::string bytes = BytesOf(path);
  bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 0x10);
  WriteFile(path, bytes);
}

TEST_CASE("after failed loads, training continues with results bit-identical to those of a run without the loads") {
  const Scratch scratch;
  Trainee saver(SmallModel());
  TrainAndSave(&saver, 4, scratch / "spoiled");
  RequireSave(&saver.rank, scratch / "whole");
  Spoil(scratch / "spoiled");
  RankSpec renamed = SmallModel();
  renamed.params[2].name = "tables";
  Trainee with_other_names(renamed);
  RequireSave(&with_other_names.rank, scratch / "renamed");
  Trainee with_other_blocks(SmallModel("max_preconditioner_dim=5"));
  RequireSave(&with_other_blocks.rank, scratch / "blocks");
  for (const int steps : {0, 1, 3}) {
    CAPTURE(steps);
    Trainee loader(SmallModel());
    Trainee other(SmallModel());
    loader.Train(1, steps);
    other.Train(1, steps);
    CheckRefused(&loader.rank, scratch / "spoiled", SHAMPOO_E_IO,
                 {"checkpoint-000001.rank-00000-of-00001.safetensors", "entry \"table/1/momentum\"", "checksum"});
    CheckRefused(&loader.rank, scratch / "nothing", SHAMPOO_E_IO, {scratch / "nothing"});
    CheckRefused(&loader.rank, scratch / "renamed", SHAMPOO_E_INVALID, {"\"table\"", "\"tables\""});
    CheckRefused(&loader.rank, scratch / "blocks", SHAMPOO_E_INVALID, {"on_block_mismatch"});
    loader.Train(steps + 1, steps + 3);
    other.Train(steps + 1, steps + 3);
    CHECK_MESSAGE(loader.rank.status == SHAMPOO_OK, loader.rank.error);
    CHECK(Everything(loader.rank) == Everything(other.rank));
    // A successful load replaces the whole state.
    RequireLoad(&loader.rank, scratch / "whole");
    CHECK(StatesOf(loader.rank) == StatesOf(saver.rank));
    CHECK(StepsOf(loader.rank, 0) == 4);
  }
}

// A parameter of one element, whose gradients are 0. The preset of the tests, shampoo_2024, sets epsilon to 1e-12. With
// this preset, the exponent of the inverse root of a vector is -exponent_multiplier / 2, so the root would be
// (1e-12)^-5. This number does not fit into float32, the dtype of inverse roots, so every rung of the recovery ladder
// fails.
const RankSpec kFailingRoots = {.keys = "exponent_multiplier=10 root_failure_tolerance=2", .params = {{"zero", {1}}}};

void StepWithZeros(Rank* rank, int steps) {
  for (int t = 0; t < steps; ++t) RequireStep(rank);
}

// Checks that the next step reports an error of an earlier step.
void CheckDeferredError(Rank* rank, const std::vector<std::string>& words) {
  rank->Step();
  CHECK(rank->status == SHAMPOO_E_NUMERIC);
  CHECK(MissingWord(rank->error, words) == "");
}

TEST_CASE("deferred errors of earlier steps are discarded by a load that succeeds") {
  const Scratch scratch;
  const std::string directory = scratch / "checkpoints";
  Rank saver(kFailingRoots);
  RequireSave(&saver, directory);
  for (const bool loads : {false, true}) {
    CAPTURE(loads);
    Rank roots(kFailingRoots);
    StepWithZeros(&roots, 3);
    Rank moves(SmallModel());
    Fill(1, &moves.g);
    REQUIRE(shampoo_optimizer_set(moves.optimizer, 0, "lr", 3e38) == SHAMPOO_OK);
    RequireStep(&moves);
    CHECK(moves.Stat("nonfinite_blocks") > 0);
    if (!loads) {
      CheckDeferredError(&roots, {"could not be computed at 3 refreshes in a row"});
      CheckDeferredError(&moves, {"the direction of block", "was not finite"});
      continue;
    }
    RequireLoad(&roots, directory);
    StepWithZeros(&roots, 3);  // as many as before, because the load reset the count of failures
    CheckDeferredError(&roots, {"could not be computed at 3 refreshes in a row"});
    Rank other(SmallModel());
    other.Save(scratch / "other");
    RequireLoad(&moves, scratch / "other");
    REQUIRE(shampoo_optimizer_set(moves.optimizer, 0, "lr", 0.1) == SHAMPOO_OK);
    RequireStep(&moves);
  }
  // A load that fails discards no errors.
  Rank roots(kFailingRoots);
  StepWithZeros(&roots, 3);
  roots.Load(scratch / "other");
  CHECK(roots.status == SHAMPOO_E_INVALID);
  CheckDeferredError(&roots, {"could not be computed at 3 refreshes in a row"});
}

TEST_CASE("a load writes to the arena that is bound as state_out, and a failed load changes no arena") {
  const Scratch scratch;
  Trainee saver(SmallModel());
  TrainAndSave(&saver, 3, scratch / "whole");
  RequireSave(&saver.rank, scratch / "spoiled");
  Spoil(scratch / "spoiled");
  for (const bool in_place : {true, false}) {
    CAPTURE(in_place);
    Trainee loader(SmallModel());
    const auto bytes = static_cast<size_t>(loader.rank.PlanBytes("state", -1));
    const auto arena = [&] {
      return std::unique_ptr<char, void (*)(void*)>(
          static_cast<char*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256)), &std::free);
    };
    const auto in = arena();
    const auto out = arena();
    std::fill_n(in.get(), bytes, char{0});
    std::fill_n(out.get(), bytes, char{0});
    char* const to = in_place ? in.get() : out.get();
    REQUIRE(shampoo_optimizer_bind_state(loader.optimizer(), in.get(), to) == SHAMPOO_OK);
    CheckRefused(&loader.rank, scratch / "spoiled", SHAMPOO_E_IO, {"checksum"});
    CHECK(std::string(to, bytes) == std::string(bytes, '\0'));
    RequireLoad(&loader.rank, scratch / "whole");
    CHECK(StatesOf(loader.rank) == StatesOf(saver.rank));
    CHECK(StepsOf(loader.rank, 0) == 3);
    if (!in_place) CHECK(std::string(in.get(), bytes) == std::string(bytes, '\0'));
    // The loads have not changed the optimizer's own arena, which bind_state selects if both arenas are NULL.
    Trainee fresh(SmallModel());
    REQUIRE(shampoo_optimizer_bind_state(loader.optimizer(), nullptr, nullptr) == SHAMPOO_OK);
    CHECK(StatesOf(loader.rank) == StatesOf(fresh.rank));
    CheckRefused(&loader.rank, scratch / "spoiled", SHAMPOO_E_IO, {"checksum"});
    // The load wrote the saver's state to the arena `to`. Training continues from this state.
    REQUIRE(shampoo_optimizer_bind_state(loader.optimizer(), to, to) == SHAMPOO_OK);
    loader.TakeParams(saver.Params());
    Trainee other(SmallModel());
    other.Train(1, 5);
    loader.Train(4, 5);
    CHECK(loader.Params() == other.Params());
  }
}

}  // namespace
}  // namespace shampoo_test
