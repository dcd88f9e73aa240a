// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests steps of shard ranks, also with several replicas: all ranks make the same decision and return the same error.
// Also tests soap and kl_shampoo: each local shard takes the same steps as a separate parameter.
#include "tests/cuda/contract/rank_steps.h"

namespace shampoo_test {
namespace {

constexpr RankKind kGrids[] = {{"local", 1, 3}, {"local", 2, 2}, {"gather", 1, 3}, {"gather", 2, 2}};
// kShards: one replica of three shards. kCopies: two replicas of two shards each.
constexpr RankKind kShards[] = {{"local", 1, 3}, {"gather", 1, 3}};
constexpr RankKind kCopies[] = {{"local", 2, 2}, {"gather", 2, 2}};

// Calls run(kind, reporting) for each kind of ranks and each set of keys in kReporting (rank_steps.h).
template <typename Run, size_t kKinds>
void ForEachReporting(const RankKind (&kinds)[kKinds], const Run& run) {
  for (const RankKind& kind : kinds) {
    for (const Keys& reporting : kReporting) {
      INFO(NameOf(kind), " ", reporting);
      const Stage stage;
      run(kind, reporting);
    }
  }
}

struct ShardFault {
  const char* what;
  shampoo_status status;
  std::vector<std::string> words;
  std::function<void(Model* model)> spoil;  // called for a faulty rank
  std::function<void(Model* model)> mend = [](Model*) {};
};
const std::vector<ShardFault> kShardFaults = {
    {"NaN",
     SHAMPOO_E_NUMERIC,
     {"shard rank ", ": the gradient of parameter \"p3\"", "has NaN"},
     [](Model* model) { model->SpoilGradient(3, 2, NAN); }},
    {"a gradient that is missing",
     SHAMPOO_E_INVALID,
     {"shard rank ", " has a gradient for parameter \"p2\" and shard rank 1 has none"},
     [](Model* model) { model->DropGradient(2, true); },
     [](Model* model) { model->DropGradient(2, false); }},
    {"a different learning rate",
     SHAMPOO_E_INVALID,
     {"shard rank 1 has a different learning rate"},
     [](Model* model) { Must(shampoo_optimizer_set(model->optimizer, 0, "lr", 0.5)); },
     [](Model* model) { Must(shampoo_optimizer_set(model->optimizer, 0, "lr", 0.25)); }},
    {"a different step",
     SHAMPOO_E_STATE,
     {"shard rank 1 is at step 8 of group 0, and shard rank 0 is at step 3"},
     [](Model* model) { model->SetState("group.0/step", {7}); },
     [](Model* model) { model->SetState("group.0/step", {2}); }},
};

TEST_CASE(
    "if one shard rank finds an error or has other inputs than the rest, all ranks of all replicas report an error") {
  for (const ShardFault& fault : kShardFaults) {
    CAPTURE(std::string(fault.what));
    ForEachReporting(kGrids, [&](const RankKind& kind, const Keys& reporting) {
      DeviceRanks ranks(SpecOfRanks(reporting), kind);
      MakeTwoSteps(&ranks);
      // Shard rank 1 of the last replica.
      const int faulty = (kind.copies - 1) * kind.shards + 1;
      fault.spoil(&ranks[faulty]);
      // Only the owner of a gathered block checks the block's gradient, which the owner gathers from the shards of its
      // own replica. The owner may be in the first replica, so the test spoils the gradient there, too.
      if (fault.status == SHAMPOO_E_NUMERIC) fault.spoil(&ranks[1]);
      CheckAllReject(&ranks, reporting, fault.status, fault.words);
      fault.mend(&ranks[faulty]);
      CheckTheyContinue(&ranks);
    });
  }
}

TEST_CASE("a difference between replicas is an error on all shard ranks of all replicas") {
  ForEachReporting(kCopies, [](const RankKind& kind, const Keys& reporting) {
    DeviceRanks ranks(SpecOfRanks(reporting), kind);
    MakeTwoSteps(&ranks);
    // Changes both shard ranks of replica 1, so that the shard ranks of each replica have equal learning rates.
    for (const int rank : {2, 3}) Must(shampoo_optimizer_set(ranks[rank].optimizer, 0, "lr", 0.5));
    CheckAllReject(&ranks, reporting, SHAMPOO_E_INVALID, {"rank 1 has a different learning rate"});
    for (const int rank : {2, 3}) Must(shampoo_optimizer_set(ranks[rank].optimizer, 0, "lr", 0.25));
    CheckTheyContinue(&ranks);
  });
}

TEST_CASE("a hyper-parameter in device memory must be equal on all shard ranks") {
  ForEachReporting(kShards, [](const RankKind& kind, const Keys& reporting) {
    DeviceRanks ranks(SpecOfRanks(reporting), kind);
    CheckBoundRates(&ranks, reporting, "shard rank 1");
  });
}

TEST_CASE("if one shard rank skips a step, all shard ranks skip it") {
  for (const RankKind& kind : kGrids) {
    CAPTURE(NameOf(kind));
    const Stage stage;
    DeviceRanks ranks(SpecOfRanks("status_lag=0 on_nonfinite=skip_step"), kind);
    MakeTwoSteps(&ranks);
    for (int copy = 0; copy < kind.copies; ++copy) ranks[copy * kind.shards + 1].SpoilGradient(3, 2, NAN);
    const auto before = ranks.Params();
    ranks.CheckStep();
    CHECK(ranks.Params() == before);
    for (const Model* model : ranks.models()) {
      CHECK(model->Stat("skipped_steps") == 1);
      CHECK(model->Stat("step.0") == 2);
    }
    CheckTheyContinue(&ranks);
  }
}

TEST_CASE("if only one shard rank can detect a difference between replicas, all shard ranks return the error") {
  ForEachReporting(kCopies, [](const RankKind& kind, const Keys& reporting) {
    ModelSpec spec = SpecOfRanks(reporting);
    spec.params = {{{6}}, {{1}}};  // only shard rank 0 holds an element of p1
    DeviceRanks ranks(spec, kind);
    MakeTwoSteps(&ranks);
    const auto before = ranks.Params();
    ranks[2].DropGradient(1, true);
    ranks.Step();
    if (ReportsLate(reporting)) ranks.Step();
    const std::string says = "rank 1 has no gradient for parameter \"p1\" and rank 0 has a gradient";
    for (int rank = 0; rank < 4; ++rank) {
      CAPTURE(ranks.text(rank));
      CHECK(ranks.status(rank) == SHAMPOO_E_INVALID);
      CHECK(ranks.text(rank).find(says) != std::string::npos);
      CHECK((ranks.text(rank).find("shard rank 0: ") != std::string::npos) == (rank % 2 == 1));
    }
    CHECK(ranks.Params() == before);
    ranks[2].DropGradient(1, false);
    CheckTheyContinue(&ranks);
  });
}

TEST_CASE("a rank without gradients in a group counts the steps that other ranks take with this group") {
  ForEachReporting(kShards, [](const RankKind& kind, const Keys& reporting) {
    ModelSpec spec = SpecOfRanks(reporting + Keys("precondition_frequency=1"));
    spec.groups = {{{"lr", "0.125"}}};
    spec.params = {{{6}}, {{1}}, {{6}}};  // only shard rank 0 holds an element of p1
    spec.params[1].group = 1;
    spec.params[2].group = 1;
    DeviceRanks ranks(spec, kind);
    for (Model* model : ranks.models()) model->DropGradient(2, true);
    MakeTwoSteps(&ranks);
    for (Model* model : ranks.models()) {
      CHECK(model->State("group.1/step")[0] == 2);
      model->DropGradient(2, false);
    }
    CheckTheyContinue(&ranks);
    for (const Model* model : ranks.models()) {
      CHECK(model->Stat("step.0") == 4);
      CHECK(model->Stat("step.1") == 4);
      CHECK(model->State("group.1/step")[0] == 4);
    }
  });
}

TEST_CASE("if only one shard rank skips an update, the next step fails on all shard ranks") {
  for (const RankKind& kind : kShards) {
    for (const Keys& lag : kLags) {
      INFO(NameOf(kind), " ", lag);
      const Stage stage;
      ModelSpec spec = SpecOfRanks(lag);
      spec.groups = {{{"lr", "1e7"}}};
      spec.params = {{{6}}, {{1}, SHAMPOO_F16, SHAMPOO_F32, SHAMPOO_F16}};  // only shard rank 0 holds an element of p1
      spec.params[1].group = 1;
      DeviceRanks ranks(spec, kind);
      ranks.Train(1, 1);
      for (Model* model : ranks.models()) model->DropGradient(1, true);
      ranks.Step(2);
      if (ReportsLate(lag)) {
        CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
        ranks.Step(2);
      }
      CHECK(ranks.DifferencesFrom(SHAMPOO_E_NUMERIC, {"shard rank 0: the direction of block p1/0 was not finite"}) ==
            "");
      for (int i = 0; i < 2; ++i) ranks.Train(3, 3);
      ranks.MustSucceed();
      for (const Model* model : ranks.models()) CHECK(model->Stat("steps") == 3);
    }
  }
}

TEST_CASE("if one rank has bound no buffers then the step fails on all ranks") {
  for (const RankKind& kind : kGrids) {
    CAPTURE(NameOf(kind));
    const Stage stage;
    DeviceRanks ranks(SpecOfRanks("status_lag=0"), kind);
    ranks.FillGradients(1);
    ranks.OnEvery([&](int rank, Model* model) {
      if (rank != 1) model->Bind();
      return shampoo_optimizer_step(model->optimizer, model->stream);
    });
    CHECK(ranks.DifferencesFrom(SHAMPOO_E_STATE, {"shard rank 1: ", "p0"}) == "");
    ranks.CheckStep();
  }
}

// The dims are chosen so that all shards of a parameter are tensors of the same shape. The basis of the null space of a
// factor matrix is arbitrary, and a GPU could compute another basis in a batch of another size. Therefore this test
// runs only on the fake.
TEST_CASE("with soap and kl_shampoo local shards take the same steps as separate parameters" * NeedsFake()) {
  struct Case {
    RankKind kind;
    std::vector<std::vector<int64_t>> whole, shards;
  };
  const Case cases[] = {{{"local", 1, 3}, {{6, 4}, {9}, {6, 2, 3}, {9, 3}}, {{2, 4}, {3}, {2, 2, 3}, {3, 3}}},
                        {{"local", 2, 2}, {{6, 4}, {8}, {4, 2, 3}, {6, 3}}, {{3, 4}, {4}, {2, 2, 3}, {3, 3}}}};
  for (const Case& one : cases) {
    for (const Keys& method : {Keys("method=soap"), Keys("method=soap basis_method=qr"), Keys("method=kl_shampoo")}) {
      INFO(NameOf(one.kind), " ", method);
      const Stage stage;
      const TestStream stream;
      const auto spec_with = [&](const std::vector<std::vector<int64_t>>& shapes) {
        ModelSpec spec;
        spec.keys = Keys("precondition_frequency=2 use_merge_dims=false") + method;
        for (const std::vector<int64_t>& shape : shapes) spec.params.push_back({shape});
        return spec;
      };
      Model whole(spec_with(one.whole), stream);  // makes no step; the other models copy its parameters and gradients
      DeviceRanks ranks(spec_with(one.whole), one.kind);
      std::vector<std::unique_ptr<Model>> separate;  // by shard
      for (int shard = 0; shard < one.kind.shards; ++shard) {
        separate.push_back(std::make_unique<Model>(spec_with(one.shards), stream));
      }
      for (uint64_t t = 1; t <= 5; ++t) {
        whole.FillGradients(t);
        if (t == 1) ranks.SetFrom(whole);
        ranks.SetGradientsFrom(whole);
        for (int shard = 0; shard < one.kind.shards; ++shard) {
          Model& own = *separate[static_cast<size_t>(shard)];
          if (t == 1) own.SetParamsOf(ranks[shard]);
          for (size_t p = 0; p < own.params(); ++p) own.SetGradient(p, ranks[shard].GradientValues(p));
          own.Step();
        }
        ranks.CheckStep();
      }
      ranks.MustSucceed();
      for (int rank = 0; rank < ranks.world(); ++rank) {
        const Model& expected = *separate[static_cast<size_t>(rank % one.kind.shards)];
        for (size_t p = 0; p < whole.params(); ++p) {
          INFO("rank ", rank, ", parameter ", p);
          CHECK(ranks[rank].ParamValues(p) == expected.ParamValues(p));
        }
      }
    }
  }
}

}  // namespace
}  // namespace shampoo_test
