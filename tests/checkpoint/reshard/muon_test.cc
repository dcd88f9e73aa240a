// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests in which an optimizer with method muon loads a checkpoint that was saved with other blocks.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/checkpoint/faults/files.h"
#include "tests/checkpoint/reshard/trainee.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

// Returns a model of one matrix. row_splits: the number of rows of each part; {}: the matrix is not divided.
RankSpec MuonModel(const std::string& second_moment, const std::vector<int64_t>& row_splits) {
  RankSpec spec;
  spec.keys = {{"method", "muon"}, {"second_moment", second_moment}, {"on_block_mismatch", "reset"}};
  spec.params = {{"weight", {8, 6}}};
  spec.params[0].row_splits = row_splits;
  return spec;
}

// Returns the state direction_moment (the second moment of the direction) of a block of "weight".
std::vector<float> MomentOf(const Rank& rank, int block) {
  const std::vector<char> bytes = StatesOf(rank).at("weight/" + std::to_string(block) + "/direction_moment");
  // StatesOf returns 8 bytes for each element. The float32 values are at the beginning of the array, without gaps; the
  // second half of the array is not used.
  std::vector<float> moment(bytes.size() / sizeof(double));
  std::memcpy(moment.data(), bytes.data(), moment.size() * sizeof(float));
  return moment;
}

// Trains a matrix of two parts for three steps and saves a checkpoint. Loads the checkpoint into an optimizer that has
// made two steps with the undivided matrix. Returns the second moment of this optimizer after the load. *saved
// receives the second moments of the two saved parts, one after the other.
std::vector<float> ReloadedMoment(const std::string& second_moment, std::vector<float>* saved) {
  const Scratch scratch;
  Trainee saver(MuonModel(second_moment, {4, 4}));
  TrainAndSave(&saver, 3, scratch / "checkpoints");
  *saved = MomentOf(saver.rank, 0);
  const std::vector<float> second = MomentOf(saver.rank, 1);
  saved->insert(saved->end(), second.begin(), second.end());
  Trainee loader(MuonModel(second_moment, {}));
  loader.Train(1, 2);
  RequireOk(loader.rank);
  RequireLoad(&loader.rank, scratch / "checkpoints");
  return MomentOf(loader.rank, 0);
}

bool IsPositive(float element) { return element > 0; }

TEST_CASE(
    "with second_moment=element, a load with on_block_mismatch=reset restores the second moment of the direction") {
  std::vector<float> saved;
  CHECK(ReloadedMoment("element", &saved) == saved);
  CHECK(std::all_of(saved.begin(), saved.end(), IsPositive));
}

TEST_CASE(
    "with second_moment=row or second_moment=short, a load with on_block_mismatch=reset sets the second moment to 0") {
  for (const char* const second_moment : {"row", "short"}) {
    CAPTURE(second_moment);
    std::vector<float> saved;
    const std::vector<float> loaded = ReloadedMoment(second_moment, &saved);
    CHECK(loaded == std::vector<float>(loaded.size()));
    CHECK(std::all_of(saved.begin(), saved.end(), IsPositive));
  }
}

}  // namespace
}  // namespace shampoo_test
