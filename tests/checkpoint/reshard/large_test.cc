// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of checkpoints that the library processes or stores in several parts, because a parameter, a block or the
// number of entries is large.
#include <doctest/doctest.h>

#include <string>

#include "tests/checkpoint/faults/files.h"
#include "tests/checkpoint/reshard/expected_states.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

constexpr uint64_t kSalt = 17;

void WriteAndSave(Grid* grid, const std::string& directory) {
  for (int rank = 0; rank < grid->world(); ++rank) {
    for (const PlacedEntry& entry : EntriesOf((*grid)[rank], grid->spec(rank).params)) {
      REQUIRE(WriteBytes((*grid)[rank], entry, ExpectedBytes(entry, kSalt)));
    }
  }
  RequireSave(grid, directory);
}

// Returns the number of entries whose bytes are those that WriteAndSave wrote. If `elementwise` is true, counts only
// entries of elementwise states, otherwise only entries of other states.
int64_t CountExpected(Grid* grid, bool elementwise) {
  int64_t count = 0;
  for (int rank = 0; rank < grid->world(); ++rank) {
    for (const PlacedEntry& entry : EntriesOf((*grid)[rank], grid->spec(rank).params)) {
      if (entry.is_elementwise() != elementwise) continue;
      count += ReadBytes((*grid)[rank], entry) == ExpectedBytes(entry, kSalt) ? 1 : 0;
    }
  }
  return count;
}

RankSpec Matrix(int64_t rows, int64_t columns, const Keys& more) {
  return {.keys = "momentum=0.9 beta1=0 use_merge_dims=false" + more, .params = {{"matrix", {rows, columns}}}};
}

TEST_CASE("a parameter that is too large for one pass of a load is loaded in several passes") {
  const Scratch scratch;
  constexpr int64_t kRows = 1100;  // the parameter is loaded in three passes of at most 2^19 elements
  const RankSpec saved = Matrix(kRows, 1000, "max_preconditioner_dim=90");
  Grid saver(saved, 1, Divide(saved.params, Division::kRows, 2));
  RequireCreate(&saver);
  WriteAndSave(&saver, scratch / "checkpoints");
  Grid loader(Matrix(kRows, 1000, "max_preconditioner_dim=75 on_block_mismatch=reset"), 1, 3);
  RequireCreate(&loader);
  RequireLoad(&loader, scratch / "checkpoints");
  int64_t states = 0;
  for (int rank = 0; rank < 3; ++rank) {
    for (const PlacedEntry& entry : EntriesOf(loader[rank], loader.spec(rank).params)) {
      states += entry.is_elementwise() ? 1 : 0;
    }
  }
  CHECK(states > 3 * 14 * 5);
  CHECK(CountExpected(&loader, true) == states);
}

TEST_CASE("if shards end where blocks end, a load from or into shards restores the factor matrices") {
  const RankSpec spec = Matrix(256, 200, "max_preconditioner_dim=160");
  Shards shards(2, spec.params);
  shards[0][0].CutFlat(0, int64_t{160} * 200);
  shards[1][0].CutFlat(int64_t{160} * 200, int64_t{96} * 200);
  for (const bool from_shards : {true, false}) {
    CAPTURE(from_shards);
    const Scratch scratch;
    Grid sharded(spec, 1, shards);
    Grid whole(spec, 1, 1);
    Grid* const saver = from_shards ? &sharded : &whole;
    Grid* const loader = from_shards ? &whole : &sharded;
    RequireCreate(saver);
    RequireCreate(loader);
    WriteAndSave(saver, scratch / "checkpoints");
    RequireLoad(loader, scratch / "checkpoints");
    // Each of the 4 blocks has one elementwise state and 5 other states.
    CHECK(CountExpected(loader, true) == 4);
    CHECK(CountExpected(loader, false) == 4 * 5);
  }
  // If the first shard has one more row, the shards do not end where blocks end.
  for (auto& shard : shards) (shard[0].flat_offset == 0 ? shard[0].flat_count : shard[0].flat_offset) += 200;
  shards[1][0].flat_count -= 200;
  const Scratch scratch;
  Grid whole(spec, 1, 1);
  RequireCreate(&whole);
  WriteAndSave(&whole, scratch / "checkpoints");
  Grid other(spec, 1, shards);
  RequireCreate(&other);
  other.Load(scratch / "checkpoints");
  CheckFailed(&other, SHAMPOO_E_INVALID,
              {"does not have 2 of 4 blocks of this rank: \"matrix/2 (1, 160) at element 32000\""});
}

TEST_CASE("a load does not match blocks that share only their first thousands of elements") {
  const RankSpec spec = {.keys = "max_preconditioner_dim=130 beta1=0", .params = {{"tensor", {2, 2, 130, 130}}}};
  // The parameter has four 130 x 130 matrices. The first shard of the saver has matrices 0 and 1. The first shard of
  // the loader has matrices 0 and 2. Each shard is one block of shape 2 x 130 x 130.
  Shards first(2, spec.params);
  Shards second(2, spec.params);
  for (size_t rank = 0; rank < 2; ++rank) {
    first[rank][0].CutAlong(0, static_cast<int64_t>(rank), 1);
    second[rank][0].CutAlong(1, static_cast<int64_t>(rank), 1);
  }
  const Scratch scratch;
  Grid saver(spec, 1, first);
  Grid loader(spec, 1, second);
  RequireCreate(&saver);
  RequireCreate(&loader);
  WriteAndSave(&saver, scratch / "checkpoints");
  loader.Load(scratch / "checkpoints");
  CheckFailed(&loader, SHAMPOO_E_INVALID,
              {"does not have 1 of 1 blocks of this rank: \"tensor/0 (2, 130, 130) at element 0\""});
}

TEST_CASE("more entries than fit into one file are written to several files") {
  const Scratch scratch;
  RankSpec spec = Matrix(1, 1, "max_preconditioner_dim=1");
  spec.params = {{"vector", {5000}}};
  Grid saver(spec, 2, 1);
  RequireCreate(&saver);
  WriteAndSave(&saver, scratch / "two");
  // Each rank has 2,500 blocks with four entries each: 10,000 entries. A file holds up to 16,384 entries.
  CHECK(NamesIn(scratch / "two") == std::vector<std::string>{"checkpoint-000001.json",
                                                             "checkpoint-000001.rank-00000-of-00002.safetensors",
                                                             "checkpoint-000001.rank-00001-of-00002.safetensors"});
  const auto check_loads = [](Grid* loader, const std::string& directory) {
    RequireCreate(loader);
    RequireLoad(loader, directory);
    CHECK(CountExpected(loader, true) == 5000);
    CHECK(CountExpected(loader, false) == 15000);
  };
  Grid one(spec, 1, 1);
  check_loads(&one, scratch / "two");
  RequireSave(&one, scratch / "one");
  CHECK(NamesIn(scratch / "one") == std::vector<std::string>{"checkpoint-000001.json",
                                                             "checkpoint-000001.rank-00000-of-00001.part-2.safetensors",
                                                             "checkpoint-000001.rank-00000-of-00001.safetensors"});
  Grid back(spec, 2, 1);
  check_loads(&back, scratch / "one");
}

}  // namespace
}  // namespace shampoo_test
