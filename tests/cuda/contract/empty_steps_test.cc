// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests the key count_empty_steps in captured steps and on several ranks. With this key, a group also counts empty
// steps: steps in which no parameter of the group has a gradient.
#include "tests/cuda/contract/export_job.h"
#include "tests/cuda/tools/device_ranks.h"
#include "tests/cuda/tools/graph.h"
#include "tests/cuda/tools/stream_rank.h"

namespace shampoo_test {
namespace {

// Divides the parameters of `spec` into two groups. Group 1 counts empty steps. If preconditioning starts at step 1,
// roots of group 0 are due at steps 1 and 20, and roots of group 1 at step 1 and at each multiple of 3.
ModelSpec TwoGroups(ModelSpec spec, const Keys& more, const Keys& of_group_1 = {}) {
  const Keys keys = "epsilon=0.1 refresh_growth=0";
  spec.keys = spec.keys + keys + Keys("precondition_frequency=20") + more;
  spec.groups = {Keys("count_empty_steps=true precondition_frequency=3") + of_group_1};
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
  model->MustSucceed();
}

void CheckReplaysCount(ModelSpec spec) {
  const Keys keys = spec.keys;
  for (const Keys& lag : kLags) {
    CAPTURE(lag);
    const StageWithStream stream;
    spec.keys = keys + lag;
    Model plain(spec, stream);
    Model captured(spec, stream);
    MakeEmptySteps(&plain, false);
    MakeEmptySteps(&captured, true);
    CheckReplayed(captured, plain, 12);
    CHECK(captured.State("group.1/step") == std::vector<double>{12});
  }
}

TEST_CASE("replays count steps of a group without gradients, also when roots are due or preconditioning starts") {
  const Keys late = "start_preconditioning_step=6";
  for (const Keys& of_group_1 : {Keys{}, late, late + Keys("root_spread=true"), Keys("root_async=1")}) {
    CAPTURE(of_group_1.size());
    CheckReplaysCount(TwoGroups(FiveShapes(), {}, of_group_1));
  }
  const Keys counts = "count_empty_steps=true";
  ModelSpec soap = TwoGroups(FiveShapes(), {});
  soap.keys = "method=soap precondition_frequency=3";
  soap.groups = {counts};
  for (ParamSpec& param : soap.params) {
    // Steps that compute eigenbases cannot be captured, so group 0 has only parameters without eigenbases.
    if (param.group == 0) param.role = SHAMPOO_EMBEDDING;
  }
  CheckReplaysCount(soap);
  ModelSpec muon = TwoGroups(FiveShapes(), {});
  muon.keys = "method=muon adam_lr=0.01 grafting=adam";
  muon.groups = {late + counts};
  CheckReplaysCount(muon);
}

TEST_CASE("with count_empty_steps, a replay with gradients is rejected if roots are due") {
  StagedModel model(TwoGroups(FiveShapes(), {{"grafting", "adam"}}));
  model.Step(1);
  const Graph graph(&model);
  graph.Launch();
  const std::vector<char> before = BitsOf(model);
  graph.Launch();
  CHECK(BitsOf(model) == before);
  CheckError(model.Status(), SHAMPOO_E_STATE, "a captured step was replayed as step 3 of group 1");
}

TEST_CASE("several ranks capture and replay steps in which a group without gradients only counts the step") {
  for (const RankKind& kind :
       {RankKind{"local", 2, 1}, {"local", 1, 2}, {"gather", 1, 2, true}, {"gather", 2, 2, false, "64"}}) {
    CAPTURE(NameOf(kind));
    const RankComms<StreamComm> comms(kind);
    ModelSpec spec = TwoGroups(SpecOfKind(kind), {});
    for (size_t p = 0; p < spec.params.size(); ++p) spec.params[p].group = p % 4 < 2 ? 0 : 1;
    CheckReplaysCount(comms.Join(spec));
  }
}

TEST_CASE("with count_empty_steps, gathered shards reject the replay at which orthogonalization starts") {
  const RankKind kind{"gather", 1, 2, true};
  const RankComms<StreamComm> comms(kind);
  ModelSpec spec = SpecOfKind(kind);
  spec.keys =
      "method=muon adam_lr=0.01 grafting=adam shard_mode=gather start_preconditioning_step=4 count_empty_steps=true";
  StagedModel model(comms.Join(spec));
  model.Step(1);
  const Graph graph(&model);
  for (const double step : {2, 3, 3}) {
    graph.Launch();
    CHECK(model.State("group.0/step") == std::vector<double>{step});
  }
  CheckError(model.Status(), SHAMPOO_E_STATE, "a captured step was replayed as step 4 of group 0");
}

// Returns the specification of a model for four shards. Two of the shards hold no element of p1, which is in group 1.
ModelSpec ShardedGroups(const Keys& more) {
  ModelSpec spec{.keys = Keys("grafting=adam use_merge_dims=false momentum=0.9"),
                 .params = {{{4, 4}}, {{2, 1}}, {{6}}, {{4, 4}}, {{3, 4}}, {{6}}}};
  return TwoGroups(spec, more);
}

// Drops gradients before step t: all gradients in step 4, and those of group 1 in steps 2 to 5 and in step 8. Restores
// all other gradients.
void PrepareStep(uint64_t t, Model* model) {
  for (size_t p = 0; p < model->params(); ++p) {
    const bool is_empty = model->spec(p).group == 1 && ((t >= 2 && t <= 5) || t == 8);
    model->DropGradient(p, is_empty || t == 4);
  }
}

void CheckRanksCount(const RankKind& kind, const Keys& more) {
  INFO(NameOf(kind), " ", more);
  const Stage stage;
  Model alone(ShardedGroups(more));
  DeviceRanks ranks(ShardedGroups(more), kind);
  alone.FillGradients(1);
  ranks.SetFrom(alone);
  for (uint64_t t = 1; t <= 10; ++t) {
    CAPTURE(t);
    alone.FillGradients(t);
    ranks.SetGradientsFrom(alone);
    PrepareStep(t, &alone);
    for (Model* model : ranks.models()) PrepareStep(t, model);
    alone.Step();
    ranks.CheckStep();
    if (t % 3 == 0) ranks.Status();
  }
  ranks.MustSucceed();
  if (kind.shards == 1) ranks.CheckParams(alone);
  if (kind.shards > 1 && kind.gathers()) ranks.CheckShardsOf(alone, 1e-5);
  for (const Model* model : ranks.models()) {
    CHECK(model->State("group.0/step") == std::vector<double>{9});
    CHECK(model->State("group.1/step") == std::vector<double>{10});
    CHECK(model->Stat("step.1") == 10);
  }
}

TEST_CASE("all ranks count empty steps, and replicas and gathered shards have the same parameters as one rank") {
  for (const auto& [copies, shards] : {std::pair{2, 1}, {1, 4}, {2, 2}}) {
    for (const Keys& lag : kLags) {
      for (const char* mode : {"local", "gather"}) CheckRanksCount({mode, copies, shards}, lag);
      CheckRanksCount({"gather", copies, shards, false, "64"}, lag + Keys("trace_scaling=0.5 communicate=params"));
    }
  }
}

TEST_CASE(
    "local shards that count empty steps have the same parameters and averages as one rank if the method is "
    "elementwise") {
  const Keys narrow = "average_dtype=bf16 state_rounding=stochastic";
  for (const Keys& average :
       {Keys("averaging=schedule_free momentum=0"), Keys("weight_ema=0.75"), Keys("weight_ema=0.75") + narrow}) {
    for (const RankKind& kind : {RankKind{"local", 1, 4}, {"local", 2, 2}}) {
      INFO(NameOf(kind), " ", average);
      const Stage stage;
      ModelSpec spec = ShardedGroups({});
      spec.keys = Keys("method=adam lr=0.1 momentum=0.9") + average;
      spec.groups = {{{"count_empty_steps", "true"}}};
      ExportJob job(kind, spec);
      for (uint64_t t = 1; t <= 10; ++t) {
        PrepareStep(t, &job.alone);
        for (Model* model : job.ranks.models()) PrepareStep(t, model);
        job.StepAll(t);
        REQUIRE(job.ranks.DifferencesFrom(SHAMPOO_OK) == "");
      }
      job.ranks.MustSucceed();
      job.CheckSameParams();
      job.CheckExport(1);
    }
  }
}

TEST_CASE("ranks reject a step if their step counters of a group without gradients differ") {
  for (const RankKind& kind : {RankKind{"local", 2, 1}, {"gather", 2, 1}, {"local", 1, 2}, {"gather", 1, 2}}) {
    CAPTURE(NameOf(kind));
    const Stage stage;
    DeviceRanks ranks(ShardedGroups("status_lag=0"), kind);
    ranks.Train(1, 1);
    ranks[1].SetState("group.1/step", {5});
    for (Model* model : ranks.models()) DropGroup1(model, true);
    ranks.Step(2);
    CHECK(ranks.DifferencesFrom(SHAMPOO_E_STATE, {"rank 1", "step"}) == "");
    ranks[1].SetState("group.1/step", {1});
    ranks.Train(2, 2);
    for (const Model* model : ranks.models()) CHECK(model->State("group.1/step") == std::vector<double>{2});
  }
}

TEST_CASE("a group without gradients does not count a rejected step") {
  for (const RankKind& kind : {RankKind{"local", 1, 1},
                               {"gather", 1, 1},
                               {"local", 2, 1},
                               {"gather", 2, 1},
                               {"local", 1, 2},
                               {"gather", 1, 2}}) {
    CAPTURE(NameOf(kind));
    const Stage stage;
    DeviceRanks ranks(ShardedGroups("status_lag=0"), kind);
    ranks.Step(1);
    ranks.FillGradients(2);
    for (Model* model : ranks.models()) {
      DropGroup1(model, true);
      model->SpoilGradient(0, 0, NAN);
    }
    ranks.CheckStep(SHAMPOO_E_NUMERIC, {"\"p0\" has NaN"});
    for (const Model* model : ranks.models()) CHECK(model->State("group.1/step") == std::vector<double>{1});
    ranks.Train(2, 2);
    for (const Model* model : ranks.models()) CHECK(model->State("group.1/step") == std::vector<double>{2});
  }
}

}  // namespace
}  // namespace shampoo_test
