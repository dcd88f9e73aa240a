// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests stochastic rounding on the device: captured steps, memory, replicas and shards.
#include "tests/cuda/contract/rank_steps.h"
#include "tests/cuda/contract/sizes.h"
#include "tests/cuda/tools/graph.h"

namespace shampoo_test {
namespace {

const Keys kRoundedStates = "state_rounding=stochastic filtered_grad_dtype=bf16 beta1=0.9";
const Keys kNarrowMoment = "second_moment_dtype=bf16";
const std::vector<Keys> kRoundedMethods = {
    Keys("method=adam") + kNarrowMoment,
    {{"method", "sgd"}, {"momentum", "0.9"}, {"momentum_dtype", "bf16"}},
    {{"method", "shampoo"}, {"grafting", "adam"}, {"grafting_dtype", "bf16"}, {"epsilon", "0.1"}},
    Keys("method=soap precondition_frequency=2") + kNarrowMoment,
    Keys("method=muon second_moment=element") + kNarrowMoment};

ModelSpec RoundedModel(const Keys& method, const Keys& more = {}, int32_t dtype = SHAMPOO_F32) {
  ModelSpec spec;
  spec.keys = Keys("lr=0.05") + kRoundedStates + method + more;
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{9, 7}, {12}, {6, 4, 2}, {70, 66}}) {
    spec.params.push_back({shape, dtype, SHAMPOO_F32, dtype});
  }
  return spec;
}

TEST_CASE("n replays of a captured step round with the same random numbers as n steps that are not captured") {
  const Keys param = "param_rounding=stochastic";
  for (const Keys& average : {Keys{}, Keys("weight_ema=0.9 average_dtype=bf16")}) {
    for (const Keys& method : kRoundedMethods) {
      if (method[0].second == "soap" || method[0].second == "shampoo")
        continue;  // a step that computes roots or eigenbases cannot be captured
      CAPTURE(method[0].second);
      const StageWithStream stream;
      Model plain(RoundedModel(method, param + average, SHAMPOO_BF16), stream);
      Model captured(RoundedModel(method, param + average, SHAMPOO_BF16), stream);
      for (Model* model : {&plain, &captured}) {
        model->DropGradient(1, true);
        model->Step(1);
      }
      StepAndReplay(&plain, &captured, 8);
    }
  }
}

TEST_CASE("steps that round stochastically load no kernel, allocate nothing and wait for nothing" * NeedsFake()) {
  for (const Keys& method : kRoundedMethods) {
    CAPTURE(method[0].second);
    const Keys more = "param_rounding=stochastic weight_ema=0.9";
    StagedModel model(RoundedModel(method, more, SHAMPOO_BF16), FAKE_CUDA_AS_LATE_AS_POSSIBLE);
    model.FillGradients(1);
    CheckOnlyEnqueues([&] { model.Step(); });
  }
}

TEST_CASE("the planned workspace includes the table that stochastic rounding needs") {
  for (const char* rounding : {"nearest", "stochastic"}) {
    const Stage stage;
    Sizes sizes;
    const shampoo_allocator allocator = sizes.allocator();
    ModelSpec spec{.keys = {{"method", "sgd"}, {"state_rounding", rounding}},
                   .params = std::vector<ParamSpec>(1000, ParamSpec{{1}})};
    spec.allocator = &allocator;
    const Model model(spec);
    REQUIRE(sizes.all.size() == 2);
    CHECK(sizes.all[0] <= PlannedBytes(model.plan.get(), "workspace"));
  }
}

TEST_CASE("with shard_mode=gather, shard ranks round states as a single rank does") {
  for (const Keys& method : kRoundedMethods) {
    for (const RankKind& kind : {RankKind{"gather", 1, 3, true, "2048"}, {"gather", 2, 2, false, "2048"}}) {
      INFO(NameOf(kind), " ", method);
      CheckShardedSteps(RoundedModel(method), kind, 1e-2);
    }
  }
}

TEST_CASE("replicas round states as a single rank does") {
  for (const Keys& method : kRoundedMethods) {
    CAPTURE(method[0].second);
    const Stage stage;
    const ModelSpec spec = RoundedModel(method);
    Model alone(spec);
    DeviceRanks ranks(spec, 3);
    for (uint64_t t = 1; t <= 4; ++t) {
      alone.Step(t);
      ranks.Train(t, t);
    }
    ranks.Status();
    CHECK(ranks.SameParams());
    for (size_t p = 0; p < alone.params(); ++p) {
      CHECK(Distance(ranks[1].ParamValues(p), alone.ParamValues(p)) <= (OnFake() ? 0 : 1e-2));
    }
  }
}

TEST_CASE(
    "with shard_mode=local, shard ranks round the states and parameters of an elementwise method as a single rank "
    "does") {
  for (const Keys& method : {kRoundedMethods[0], kRoundedMethods[1]}) {
    CAPTURE(method[0].second);
    const Keys more = "param_rounding=stochastic weight_ema=0.9 average_dtype=bf16";
    CheckShardedSteps(RoundedModel(method, more, SHAMPOO_BF16), {"local", 1, 3}, 1e-2);
  }
}

}  // namespace
}  // namespace shampoo_test
