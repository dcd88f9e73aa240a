// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests in which an optimizer loads averages of parameters from a checkpoint that was saved with other blocks.
#include <doctest/doctest.h>

#include <vector>

#include "tests/checkpoint/faults/files.h"
#include "tests/checkpoint/reshard/trainee.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

// Returns a Trainee of SmallModel() with blocks of at most `largest` rows and columns. Momentum is 0, because the key
// `averaging` does not allow momentum.
Trainee MakeTrainee(const Keys& averages, const char* largest) {
  return Trainee(SmallModel(
      Keys{{"momentum", "0"}, {"max_preconditioner_dim", largest}, {"on_block_mismatch", "reset"}} + averages));
}

// Returns the averages of the trainee's parameters.
std::vector<std::vector<float>> AveragesOf(const Trainee& trainee) {
  std::vector<std::vector<float>> averages = trainee.rank.w;
  std::vector<void*> weights;
  for (std::vector<float>& one : averages) weights.push_back(one.data());
  REQUIRE(shampoo_optimizer_export(trainee.optimizer(), 1, static_cast<int32_t>(weights.size()), weights.data()) ==
          SHAMPOO_OK);
  return averages;
}

TEST_CASE("a load with on_block_mismatch=reset restores averages and the state lr_sum") {
  for (const Keys& averages : {Keys("averaging=schedule_free"), Keys("averaging=gpa"), Keys("weight_ema=0.9")}) {
    CAPTURE(averages[0].second);
    const Scratch scratch;
    Trainee saver = MakeTrainee(averages, "4");
    TrainAndSave(&saver, 3, scratch / "checkpoints");
    Trainee loader = MakeTrainee(averages, "8");
    loader.Train(1, 1);  // binds the parameters
    RequireOk(loader.rank);
    loader.TakeParams(saver.Params());
    RequireLoad(&loader.rank, scratch / "checkpoints");
    const std::vector<std::vector<float>> loaded = AveragesOf(loader);
    CHECK(loaded == AveragesOf(saver));
    CHECK(loader.rank.w == saver.rank.w);
    CHECK(loaded != saver.rank.w);
    int sums = 0;
    for (const auto& [key, bytes] : StatesOf(loader.rank)) {
      if (!key.ends_with("/lr_sum")) continue;
      ++sums;
      CHECK_MESSAGE(bytes == StatesOf(saver.rank).at(key), key);
      CHECK(bytes != std::vector<char>(bytes.size()));
    }
    CHECK((sums > 0) == (averages[0].second == "schedule_free"));
  }
}

TEST_CASE("on_block_mismatch=reset rejects a checkpoint without the state lr_sum if averaging=schedule_free needs it") {
  const Scratch scratch;
  Trainee saver = MakeTrainee("averaging=gpa", "4");
  TrainAndSave(&saver, 3, scratch / "checkpoints");
  Trainee loader = MakeTrainee("averaging=schedule_free", "8");
  CheckRefused(&loader.rank, scratch / "checkpoints", SHAMPOO_E_INVALID,
               {"the checkpoint has no state \"lr_sum\" of parameter", "averaging=gpa",
                "averaging is schedule_free in this optimizer"});
}

}  // namespace
}  // namespace shampoo_test
