// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints of method muon whose blocks are not those of the optimizer that loads them.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "tests/checkpoint/faults/files.h"
#include "tests/checkpoint/reshard/trainee.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

// One matrix, whose rows are divided into parts if row_splits is not empty.
RankSpec MuonModel(const std::string& second_moment, const std::vector<int64_t>& row_splits) {
  RankSpec spec;
  spec.keys = {{"method", "muon"}, {"second_moment", second_moment}, {"on_block_mismatch", "reset"}};
  spec.params = {{"weight", {8, 6}}};
  spec.params[0].row_splits = row_splits;
  return spec;
}

// Trains a matrix of two parts for three steps, and loads the checkpoint into an optimizer that has the matrix without
// parts and has made two steps. Returns the second moment of the loader's direction. *saved receives the second moments
// of the saver's parts, one after the other.
std::vector<char> ReloadedMoment(const std::string& second_moment, std::vector<char>* saved) {
  const Scratch scratch;
  Trainee saver(MuonModel(second_moment, {4, 4}));
  saver.Train(1, 3);
  RequireOk(saver.rank);
  RequireSave(&saver.rank, scratch / "checkpoints");
  const States parts = StatesOf(saver.rank);
  *saved = parts.at("weight/0/direction_moment");
  const std::vector<char>& second = parts.at("weight/1/direction_moment");
  saved->insert(saved->end(), second.begin(), second.end());
  Trainee loader(MuonModel(second_moment, {}));
  loader.Train(1, 2);
  RequireOk(loader.rank);
  RequireLoad(&loader.rank, scratch / "checkpoints");
  return StatesOf(loader.rank).at("weight/0/direction_moment");
}

TEST_CASE("on_block_mismatch reset converts a second moment of elements of the direction") {
  std::vector<char> saved;
  const std::vector<char> loaded = ReloadedMoment("element", &saved);
  CHECK(loaded == saved);
  CHECK(std::any_of(saved.begin(), saved.end(), [](char byte) { return byte != 0; }));
}

TEST_CASE("on_block_mismatch reset clears means of the direction") {
  for (const char* const second_moment : {"row", "short"}) {
    CAPTURE(second_moment);
    std::vector<char> saved;
    const std::vector<char> loaded = ReloadedMoment(second_moment, &saved);
    CHECK(std::all_of(loaded.begin(), loaded.end(), [](char byte) { return byte == 0; }));
    CHECK(std::any_of(saved.begin(), saved.end(), [](char byte) { return byte != 0; }));
  }
}

}  // namespace
}  // namespace shampoo_test
