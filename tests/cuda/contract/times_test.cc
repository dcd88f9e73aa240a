// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests the key track_times on the device: events in the stream measure the times of the phases. The host reads these
// times when it reads the report of the step (see HostReport in device_tables.h).
#include "tests/cuda/tools/device_ranks.h"
#include "tests/cuda/tools/graph.h"

namespace shampoo_test {
namespace {

const char* const kPhases[] = {"seconds.check", "seconds.factor_update", "seconds.roots", "seconds.preconditioning",
                               "seconds.elementwise"};

std::vector<double> Times(const Model& model) {
  std::vector<double> times;
  for (const char* phase : kPhases) times.push_back(model.Stat(phase));
  return times;
}

// Returns the number of phases whose time has grown.
int Grown(const std::vector<double>& before, const std::vector<double>& now) {
  int grown = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    CHECK(now[i] >= before[i]);
    grown += now[i] > before[i] ? 1 : 0;
  }
  return grown;
}

TEST_CASE("if track_times is set, the times of all phases are known when the host reads the report of the step") {
  for (const bool tracked : {false, true}) {
    for (const Keys& lag : kLags) {
      INFO("tracked ", tracked, ", ", lag);
      const Keys keys = {{"track_times", tracked ? "true" : "false"}, {"refresh_growth", "0"}};
      StagedModel model(FiveShapes(keys + lag));
      model.Step(1);
      const std::vector<double> none(5);
      // The first roots are due at step 2 (precondition_frequency), so step 1 neither computes roots nor preconditions.
      const bool late = ReportsLate(lag);
      CHECK(Grown(none, Times(model)) == (tracked && !late ? 3 : 0));
      model.Step(2);
      CHECK(Grown(none, Times(model)) == (!tracked ? 0 : late ? 3 : 5));
      model.MustSucceed();
      const std::vector<double> before = Times(model);
      CHECK(Grown(none, before) == (tracked ? 5 : 0));
      // No roots are due at step 3.
      model.Step(3);
      model.MustSucceed();
      CHECK(Grown(before, Times(model)) == (tracked ? 4 : 0));
      CHECK(Times(model)[2] == before[2]);
    }
  }
}

TEST_CASE("track_times changes no result and adds no wait and no allocation" * NeedsFake()) {
  for (const char* async : {"0", "2"}) {
    const Stage stage;
    std::vector<std::vector<char>> bits;
    for (const char* tracked : {"false", "true"}) {
      const TestStream stream;
      Model model(FiveShapes({{"track_times", tracked}, {"root_async", async}, {"precondition_frequency", "4"}}),
                  stream);
      model.Train(1, 2);
      fake_cuda_mark();
      model.Bind();
      for (int t = 3; t <= 9; ++t) Must(shampoo_optimizer_step(model.optimizer, stream));
      CHECK(fake_cuda_calls("cudaEventSynchronize") <= 7);  // a step may wait once, for the previous step
      CHECK(fake_cuda_count(FAKE_CUDA_ALLOCATIONS) == 0);
      bits.push_back(BitsOf(model));
    }
    CHECK(bits[0] == bits[1]);
  }
}

TEST_CASE("seconds.roots includes the time of async roots") {
  const StageWithStream stream;
  Model model(FiveShapes("track_times=true root_async=2 precondition_frequency=4 refresh_growth=0 status_lag=0"),
              stream);
  model.Train(1, 12);
  CHECK(model.Stat("root_computed") > 0);
  CHECK(model.Stat("seconds.roots") > 0);
}

TEST_CASE("replays of captured steps are not measured, and do not disturb the times of other steps") {
  StagedModel model(FiveShapes("track_times=true refresh_growth=0 precondition_frequency=8"));
  model.Train(1, 2);
  model.MustSucceed();
  const std::vector<double> before = Times(model);
  model.FillGradients(3);
  {
    const Graph graph(&model);
    graph.Launch();
    graph.Launch();
    model.MustSucceed();
  }
  CHECK(model.Stat("steps") == 4);
  CHECK(Times(model) == before);
  model.Step(5);
  const Graph graph(&model);  // captured before the host has read the times of step 5
  graph.Launch();
  model.MustSucceed();
  CHECK(Grown(before, Times(model)) == 3);
}

TEST_CASE("a rejected step and steps of several ranks are measured") {
  const Stage stage;
  for (const RankKind& kind : {RankKind{"local", 2, 1, false, "64"},
                               {"local", 1, 2, false, "64"},
                               {"local", 2, 2, false, "64"},
                               {"gather", 1, 2, false, "64"},
                               {"gather", 2, 2, false, "64"}}) {
    CAPTURE(NameOf(kind));
    DeviceRanks ranks(FiveShapes("track_times=true status_lag=0"), kind);
    ranks.Train(1, 2);
    std::vector<std::vector<double>> before;
    for (const Model* model : ranks.models()) {
      before.push_back(Times(*model));
      CHECK(Grown(std::vector<double>(5), before.back()) == 5);
    }
    ranks.FillGradients(3);
    // Only the owner of a gathered block checks the block's gradient, which the owner gathers from the shards of its
    // own replica. The owner may be in any replica. With gathered blocks, the test therefore writes a NaN to a gradient
    // of every replica.
    const int next = kind.gathers() ? kind.shards : kind.world();
    for (int rank = 1; rank < ranks.world(); rank += next) ranks[rank].SpoilGradient(3, 2, NAN);
    ranks.Step();
    CHECK(ranks.DifferencesFrom(SHAMPOO_OK) != "");
    for (int rank = 0; rank < ranks.world(); ++rank) {
      CHECK(Times(ranks[rank])[0] > before[static_cast<size_t>(rank)][0]);
    }
  }
}

}  // namespace
}  // namespace shampoo_test
