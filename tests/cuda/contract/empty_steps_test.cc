// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The key count_empty_steps: captured steps, and several ranks.
#include "tests/cuda/contract/export_job.h"
#include "tests/cuda/contract/grid.h"
#include "tests/cuda/tools/device_ranks.h"
#include "tests/cuda/tools/graph.h"
#include "tests/cuda/tools/stream_rank.h"

namespace shampoo_test {
namespace {

// Roots of group 0 are due at step 20, and those of group 1, which counts empty steps, at steps 3, 6, 9 and so on.
ModelSpec TwoGroups(ModelSpec spec, const Keys& more, const Keys& of_group_1 = {}) {
  const Keys keys = {{"epsilon", "0.1"}, {"refresh_growth", "0"}};
  spec.keys = spec.keys + keys + Keys{{"precondition_frequency", "20"}} + more;
  spec.groups = {Keys{{"count_empty_steps", "true"}, {"precondition_frequency", "3"}} + of_group_1};
  for (size_t p = 0; p < spec.params.size(); ++p) spec.params[p].group = p % 3 == 1 ? 1 : 0;
  return spec;
}

// Drops or restores the gradients of group 1.
void DropGroup1(Model* model, bool dropped) {
  for (size_t p = 0; p < model->params(); ++p) {
    if (model->spec(p).group == 1) model->DropGradient(p, dropped);
  }
}

// Makes steps 1 to 12. Group 1 has gradients at step 1 and from step 11 on. Steps 3 to 10 are replays if `captures` is
// true.
void MakeEmptySteps(Model* model, bool captures) {
  std::unique_ptr<Graph> graph;
  for (uint64_t t = 1; t <= 12; ++t) {
    CAPTURE(t);
    model->FillGradients(t);
    DropGroup1(model, t > 1 && t < 11);
    if (t == 3 && captures) graph = std::make_unique<Graph>(model);
    if (t >= 3 && t <= 10 && captures) {
      graph->Launch();
    } else {
      model->Step();
    }
  }
  Must(shampoo_optimizer_status(model->optimizer, 1, nullptr));
}

void CheckReplaysCount(const ModelSpec& of) {
  for (const char* lag : {"0", "1"}) {
    CAPTURE(std::string(lag));
    const StageWithStream stream;
    ModelSpec spec = of;
    spec.keys.emplace_back("status_lag", lag);
    Model plain(spec, stream);
    Model captured(spec, stream);
    for (Model* model : {&plain, &captured}) model->FillParams(1);
    MakeEmptySteps(&plain, false);
    MakeEmptySteps(&captured, true);
    CHECK(BitsOf(captured) == BitsOf(plain));
    CHECK(captured.State("group.1/step") == std::vector<double>{12});
    CHECK(captured.Stat("steps") == 12);
  }
}

TEST_CASE("replays count steps of a group without gradients, also when roots are due or another rule begins") {
  const Keys late = {{"start_preconditioning_step", "6"}};
  for (const Keys& of_group_1 : {Keys{}, late, late + Keys{{"root_spread", "true"}}, Keys{{"root_async", "1"}}}) {
    CAPTURE(of_group_1.size());
    CheckReplaysCount(TwoGroups(FiveShapes(), {}, of_group_1));
  }
  const Keys counts = {{"count_empty_steps", "true"}};
  ModelSpec soap = TwoGroups(FiveShapes(), {});
  soap.keys = {{"method", "soap"}, {"precondition_frequency", "3"}};
  soap.groups = {counts};
  for (ParamSpec& param : soap.params) {
    // Steps that compute eigenbases cannot be captured.
    if (param.group == 0) param.role = SHAMPOO_EMBEDDING;
  }
  CheckReplaysCount(soap);
  ModelSpec muon = TwoGroups(FiveShapes(), {});
  muon.keys = {{"method", "muon"}, {"adam_lr", "0.01"}, {"grafting", "adam"}};
  muon.groups = {late + counts};
  CheckReplaysCount(muon);
}

TEST_CASE("a replay with gradients of a group that counts empty steps is rejected if roots of the group are due") {
  const StageWithStream stream;
  Model model(TwoGroups(FiveShapes(), {{"grafting", "adam"}}), stream);
  model.FillParams(1);
  model.Step(1);
  const Graph graph(&model);
  graph.Launch();
  const std::vector<char> before = BitsOf(model);
  graph.Launch();
  CHECK(BitsOf(model) == before);
  CheckError(shampoo_optimizer_status(model.optimizer, 1, nullptr), SHAMPOO_E_STATE,
             "a captured step was replayed as step 3 of group 1");
}

TEST_CASE("several ranks capture and replay steps in which a group only counts") {
  for (const RankKind& kind : {RankKind{"local", 2, 1, false},
                               {"local", 1, 2, false},
                               {"gather", 1, 2, true},
                               {"gather", 2, 2, false, "64"}}) {
    CAPTURE(std::string(kind.mode));
    CAPTURE(kind.copies);
    CAPTURE(kind.shards);
    for (const char* lag : {"0", "1"}) {
      const StageWithStream stream;
      const RankComms<StreamComm> comms(kind);
      ModelSpec spec = TwoGroups(SpecOfKind(kind), {{"status_lag", lag}});
      for (size_t p = 0; p < spec.params.size(); ++p) spec.params[p].group = p % 4 < 2 ? 0 : 1;
      Model plain(comms.Join(spec), stream);
      Model captured(comms.Join(spec), stream);
      for (Model* model : {&plain, &captured}) model->FillParams(1);
      MakeEmptySteps(&plain, false);
      MakeEmptySteps(&captured, true);
      CHECK(BitsOf(captured) == BitsOf(plain));
      CHECK(captured.State("group.1/step") == std::vector<double>{12});
    }
  }
}

TEST_CASE("gathered shards reject a replay of a group that counts empty steps if another rule begins") {
  const StageWithStream stream;
  const RankKind kind{"gather", 1, 2, true};
  const RankComms<StreamComm> comms(kind);
  ModelSpec spec = SpecOfKind(kind);
  spec.keys = {{"method", "muon"},
               {"adam_lr", "0.01"},
               {"grafting", "adam"},
               {"shard_mode", "gather"},
               {"start_preconditioning_step", "4"},
               {"count_empty_steps", "true"}};
  Model model(comms.Join(spec), stream);
  model.FillParams(1);
  model.Step(1);
  const Graph graph(&model);
  for (const double step : {2, 3, 3}) {
    graph.Launch();
    CHECK(model.State("group.0/step") == std::vector<double>{step});
  }
  CheckError(shampoo_optimizer_status(model.optimizer, 1, nullptr), SHAMPOO_E_STATE,
             "a captured step was replayed as step 4 of group 0");
}

// Some shards of four hold no element of a parameter of group 1. The parameters of each group have equal shapes.
ModelSpec ShardedGroups(const Keys& more) {
  ModelSpec spec;
  spec.keys = Keys{{"grafting", "adam"}, {"use_merge_dims", "false"}, {"momentum", "0.9"}};
  spec.params = {{{4, 4}}, {{2, 1}}, {{6}}, {{4, 4}}, {{3, 4}}, {{6}}};
  return TwoGroups(spec, more);
}

// Makes step t of a course in which no parameter has a gradient in step 4, and group 1 has none in steps 2 to 5 and 8.
void PrepareStep(uint64_t t, Model* model) {
  for (size_t p = 0; p < model->params(); ++p) {
    const bool is_empty = model->spec(p).group == 1 && ((t >= 2 && t <= 5) || t == 8);
    model->DropGradient(p, is_empty || t == 4);
  }
}

void CheckRanksCount(const Grid& grid, const Keys& more) {
  CAPTURE(grid.copies);
  CAPTURE(grid.shards);
  CAPTURE(more[0].second);
  CAPTURE(more[1].second);
  const Stage stage;
  Model alone(ShardedGroups(more));
  DeviceRanks ranks(ShardedGroups(more), grid.copies, grid.shards);
  const bool has_shards = grid.shards > 1;
  alone.FillParams(1);
  alone.FillGradients(1);
  ranks.FillParams(1);
  if (has_shards) ranks.SetFrom(alone);
  for (uint64_t t = 1; t <= 10; ++t) {
    CAPTURE(t);
    alone.FillGradients(t);
    ranks.FillGradients(t);
    PrepareStep(t, &alone);
    for (int rank = 0; rank < ranks.world(); ++rank) {
      for (size_t p = 0; has_shards && p < alone.params(); ++p) ranks.SetGradientFrom(alone, rank, p);
      PrepareStep(t, &ranks[rank]);
    }
    alone.Step();
    ranks.Step();
    REQUIRE(ranks.DifferencesFrom(SHAMPOO_OK) == "");
    if (t % 3 == 0) ranks.Status();
  }
  ranks.Status();
  REQUIRE(ranks.DifferencesFrom(SHAMPOO_OK) == "");
  if (!has_shards) ranks.CheckParams(alone);
  if (has_shards && more[0].second == "gather") ranks.CheckShardsOf(alone, 1e-5);
  for (int rank = 0; rank < ranks.world(); ++rank) {
    CHECK(ranks[rank].State("group.0/step") == std::vector<double>{9});
    CHECK(ranks[rank].State("group.1/step") == std::vector<double>{10});
    CHECK(ranks[rank].Stat("step.1") == 10);
  }
}

TEST_CASE("replicas and gathered shards count empty steps, and their steps are those of one rank") {
  for (const Grid& grid : {Grid{2, 1}, {1, 4}, {2, 2}}) {
    for (const char* lag : {"0", "1"}) {
      for (const char* mode : {"local", "gather"}) CheckRanksCount(grid, {{"shard_mode", mode}, {"status_lag", lag}});
      CheckRanksCount(grid, {{"shard_mode", "gather"},
                             {"status_lag", lag},
                             {"comm_bucket_bytes", "64"},
                             {"trace_scaling", "0.5"},
                             {"communicate", "params"}});
    }
  }
}

TEST_CASE("local shards of an elementwise method that count empty steps have the parameters and averages of one rank") {
  const Keys narrow = {{"average_dtype", "bf16"}, {"state_rounding", "stochastic"}};
  for (const Keys& average : {Keys{{"averaging", "schedule_free"}, {"momentum", "0"}}, Keys{{"weight_ema", "0.75"}},
                              Keys{{"weight_ema", "0.75"}} + narrow}) {
    for (const ExportingKind& kind : {ExportingKind{"local", 1, 4}, {"local", 2, 2}}) {
      CAPTURE(average.size());
      CAPTURE(average[0].second);
      CAPTURE(NameOfKind(kind));
      const Stage stage;
      ModelSpec spec = ShardedGroups({});
      spec.keys = Keys{{"method", "adam"}, {"lr", "0.1"}, {"momentum", "0.9"}} + average;
      spec.groups = {{{"count_empty_steps", "true"}}};
      ExportJob job(kind, spec);
      for (uint64_t t = 1; t <= 10; ++t) {
        PrepareStep(t, &job.alone);
        for (int rank = 0; rank < job.ranks.world(); ++rank) PrepareStep(t, &job.ranks[rank]);
        job.StepAll(t);
        REQUIRE(job.ranks.DifferencesFrom(SHAMPOO_OK) == "");
      }
      job.ranks.Status();
      REQUIRE(job.ranks.DifferencesFrom(SHAMPOO_OK) == "");
      job.CheckSameParams();
      job.CheckExport(1);
    }
  }
}

TEST_CASE("ranks whose counters of an empty group differ reject the step") {
  for (const Grid& grid : {Grid{2, 1}, {1, 2}}) {
    for (const char* mode : {"local", "gather"}) {
      CAPTURE(grid.shards);
      CAPTURE(std::string(mode));
      const Stage stage;
      DeviceRanks ranks(ShardedGroups({{"shard_mode", mode}, {"status_lag", "0"}}), grid.copies, grid.shards);
      ranks.FillParams(1);
      ranks.Step(1);
      REQUIRE(ranks.DifferencesFrom(SHAMPOO_OK) == "");
      ranks[1].SetState("group.1/step", {5});
      for (int rank = 0; rank < 2; ++rank) DropGroup1(&ranks[rank], true);
      ranks.Step(2);
      CHECK(ranks.DifferencesFrom(SHAMPOO_E_STATE, {"rank 1", "step"}) == "");
      ranks[1].SetState("group.1/step", {1});
      ranks.Step(2);
      REQUIRE(ranks.DifferencesFrom(SHAMPOO_OK) == "");
      for (int rank = 0; rank < 2; ++rank) CHECK(ranks[rank].State("group.1/step") == std::vector<double>{2});
    }
  }
}

TEST_CASE("a step that a rank rejects does not count in an empty group") {
  for (const Grid& grid : {Grid{1, 1}, {2, 1}, {1, 2}}) {
    for (const char* mode : {"local", "gather"}) {
      CAPTURE(grid.world());
      CAPTURE(std::string(mode));
      const Stage stage;
      DeviceRanks ranks(ShardedGroups({{"shard_mode", mode}, {"status_lag", "0"}}), grid.copies, grid.shards);
      ranks.FillParams(1);
      ranks.Step(1);
      for (int rank = 0; rank < ranks.world(); ++rank) DropGroup1(&ranks[rank], true);
      ranks.FillGradients(2);
      for (int rank = 0; rank < ranks.world(); ++rank) ranks[rank].SpoilGradient(0, 0, NAN);
      ranks.Step();
      CHECK(ranks.DifferencesFrom(SHAMPOO_E_NUMERIC, {"\"p0\" has NaN"}) == "");
      for (int rank = 0; rank < ranks.world(); ++rank) {
        CHECK(ranks[rank].State("group.1/step") == std::vector<double>{1});
      }
      ranks.Step(2);
      REQUIRE(ranks.DifferencesFrom(SHAMPOO_OK) == "");
      for (int rank = 0; rank < ranks.world(); ++rank) {
        CHECK(ranks[rank].State("group.1/step") == std::vector<double>{2});
      }
    }
  }
}

}  // namespace
}  // namespace shampoo_test
