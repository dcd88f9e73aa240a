// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests gathered shards (shard_mode=gather), whose blocks are gathered at their owners. On the fake CUDA, the steps are
// bit-identical to those of the same model without shards. On a GPU, they agree within a tolerance.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "tests/cuda/contract/rank_steps.h"
#include "tests/cuda/contract/sizes.h"

namespace shampoo_test {
namespace {

constexpr RankKind kGathering[] = {{"gather", 1, 2}, {"gather", 1, 3, true}, {"gather", 2, 2}, {"gather", 2, 2, true}};

// A model without shards, and the same model in gathered shards.
struct Sharded {
  Sharded(const ModelSpec& spec, const RankKind& kind) : whole(spec, stream), ranks(spec, kind) {
    whole.FillGradients(1);
    ranks.SetFrom(whole);
  }
  void Step(uint64_t seed) {
    whole.FillGradients(seed);
    ranks.SetGradientsFrom(whole);
    StepBoth();
  }
  void StepBoth() {
    whole.Step();
    ranks.CheckStep();
  }
  void Drop(size_t p, bool dropped) {
    whole.DropGradient(p, dropped);
    for (Model* model : ranks.models()) model->DropGradient(p, dropped);
  }
  void CheckEqual(double tolerance_on_gpu = 1e-4) {
    ranks.MustSucceed();
    ranks.CheckShardsOf(whole, tolerance_on_gpu);
  }

  TestStream stream;
  Model whole;
  DeviceRanks ranks;
};

// Every second step refreshes roots. With comm_bucket_bytes, each exchange is divided into several smaller exchanges.
const std::vector<Keys> kOptions = {
    {},
    {{"status_lag", "0"}, {"comm_bucket_bytes", "64"}},
    {{"root_method", "newton"}, {"communicate", "params"}},
    {{"root_method", "higher_order"}, {"root_order", "3"}, {"weight_decay", "0.1"}},
    {{"root_method", "cans"}, {"weight_decay", "0.1"}, {"weight_decay_type", "coupled"}},
    {{"root_async", "1"}, {"max_preconditioner_dim", "4"}, {"output", "updates"}},
    {{"root_async", "1"}, {"root_device", "host"}, {"status_lag", "0"}},
    {{"grafting", "none"}, {"factor_dtype", "bf16"}, {"inverse_dtype", "f16"}, {"root_spread", "true"}},
};

TEST_CASE("gathered shards make the same steps as the model without shards") {
  for (const Keys& options : kOptions) {
    for (const RankKind& kind : kGathering) {
      INFO(NameOf(kind), " ", options);
      const Stage stage;
      ModelSpec spec = FiveShapes(options);
      // The model has parameters of every dtype, a second group, and shards without elements. A step also writes a copy
      // of p2 (shampoo_buffers.copy), and writes the output of p4 to separate memory.
      spec.params[0] = {{4, 3}, SHAMPOO_BF16, SHAMPOO_BF16, SHAMPOO_BF16};
      spec.params[1] = {{5}, SHAMPOO_F16, SHAMPOO_F32, SHAMPOO_F16};
      spec.params[2].copy_dtype = SHAMPOO_BF16;
      spec.params[3] = {{6, 6}, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F64};
      spec.params[4].in_place = false;
      spec.groups = {{{"lr", "0.25"}}};
      spec.params[4].group = 1;
      spec.params.push_back({{1}});
      spec.params.push_back({{70, 66}});  // several tiles
      Sharded sharded(spec, kind);
      for (uint64_t t = 1; t <= 5; ++t) {
        sharded.Drop(4, t == 3);  // the only parameter of its group
        sharded.Drop(6, t == 2);  // its only element is on one shard
        sharded.Step(t);
      }
      // A GPU may round a bf16 state on a shard and in `whole` to two different numbers. Then later steps differ more.
      sharded.CheckEqual(options.Value("factor_dtype") == "bf16" ? 1e-2 : 1e-4);
      CHECK(sharded.ranks[0].Stat("step.0") == 5);
      CHECK(sharded.ranks[0].Stat("step.1") == 4);
    }
  }
}

TEST_CASE("a gathered block with NaN in its gradient is skipped and each rank counts it once") {
  for (const RankKind& kind : kGathering) {
    CAPTURE(NameOf(kind));
    const Stage stage;
    Sharded sharded(FiveShapes("on_nonfinite=skip_block status_lag=0"), kind);
    sharded.Step(1);
    sharded.whole.FillGradients(2);
    sharded.whole.SpoilGradient(3, 20, NAN);
    sharded.ranks.SetGradientsFrom(sharded.whole);
    sharded.StepBoth();
    sharded.CheckEqual();
    CHECK(sharded.whole.Stat("nonfinite_blocks") == 1);
    for (const Model* model : sharded.ranks.models()) CHECK(model->Stat("nonfinite_blocks") == 1);
    sharded.Step(3);
    sharded.CheckEqual();
  }
}

TEST_CASE(
    "the error for NaN in a gathered block gives the index in the whole parameter, and no rank changes anything") {
  for (const RankKind& kind : kGathering) {
    CAPTURE(NameOf(kind));
    const Stage stage;
    Sharded sharded(FiveShapes("status_lag=0 max_preconditioner_dim=4"), kind);
    sharded.Step(1);
    sharded.whole.FillGradients(2);
    sharded.whole.SpoilGradient(3, 20, NAN);
    sharded.ranks.SetGradientsFrom(sharded.whole);
    CHECK(sharded.whole.TryStep() == SHAMPOO_E_NUMERIC);
    const std::string expected = shampoo_last_error();
    const auto before = sharded.ranks.Bits();
    sharded.ranks.Step();
    // The message begins with the rank that found the error.
    CHECK(sharded.ranks.DifferencesFrom(SHAMPOO_E_NUMERIC, {"shard rank ", expected.substr(0, expected.find(':'))}) ==
          "");
    CHECK(sharded.ranks.text(0).find("had begun the step") == std::string::npos);
    CHECK(sharded.ranks.Bits() == before);
    sharded.Step(3);
    sharded.CheckEqual();
  }
}

// Only the owner of a block has the state of the block, and reports the overflow to the other ranks.
TEST_CASE(
    "a gathered block whose state would overflow is skipped and on_nonfinite decides whether the next step fails") {
  for (const RankKind& kind : kGathering) {
    for (const Keys& choice : Combinations("on_nonfinite=error|skip_block")) {
      INFO(NameOf(kind), " ", choice);
      const Stage stage;
      DeviceRanks ranks(FiveShapes(Keys("factor_dtype=f16 beta2=1 status_lag=0") + choice), kind);
      ranks.FillGradients(1);
      // Each step adds 6 * 80^2 = 38400 to the elements of a factor matrix in float16. The second sum is too large for
      // float16.
      for (Model* model : ranks.models()) model->SetGradient(3, std::vector<double>(model->elements(3), 80));
      ranks.CheckStep();
      const auto before = ranks[0].ParamValues(3);
      ranks.CheckStep();
      CHECK(ranks[0].ParamValues(3) == before);
      CHECK(ranks[0].Stat("nonfinite_blocks") == 1);
      ranks.Step(2);
      if (choice.Value("on_nonfinite") == "error") {
        CHECK(ranks.DifferencesFrom(SHAMPOO_E_NUMERIC, {"the direction of block p3/0"}) == "");
        ranks.Step();
      }
      CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
    }
  }
}

// The owner of a block measures the residuals of the block's roots.
TEST_CASE("gathered shards report the same residuals of roots as the model without shards and compute each root once") {
  const Keys tracked = "track_root_residuals=true root_async=1 precondition_frequency=4";
  for (const RankKind& kind : kGathering) {
    for (const Keys& device : Combinations("status_lag=0 root_device=device|host")) {
      INFO(NameOf(kind), " ", device);
      const Stage stage;
      Sharded sharded(FiveShapes(tracked + device), kind);
      // The roots of step 8 are used from step 9 on.
      for (uint64_t t = 1; t <= 9; ++t) sharded.Step(t);
      sharded.CheckEqual();
      for (const char* stat : {"root_error.max", "root_residual.max"}) {
        CAPTURE(std::string(stat));
        double largest = 0;
        for (const Model* model : sharded.ranks.models()) largest = std::max(largest, model->Stat(stat));
        CHECK(largest > 0);
        const double expected = sharded.whole.Stat(stat);
        if (OnFake()) {
          CHECK(largest == expected);
        } else {  // residuals are rounding errors, so only their magnitudes agree
          CHECK(std::fabs(largest - expected) <= 16 * static_cast<double>(FLT_EPSILON) + 0.5 * expected);
        }
      }
      double computed = 0;
      for (const Model* model : sharded.ranks.models()) computed += model->Stat("root_computed");
      CHECK(computed == sharded.whole.Stat("root_computed"));
    }
  }
}

TEST_CASE("creating gathered shards allocates the planned memory, and their steps allocate nothing") {
  for (RankKind kind : kGathering) {
    for (const char* bucket : {"0", "64"}) {
      kind.bucket = bucket;
      CAPTURE(NameOf(kind));
      const Stage stage;
      ModelSpec spec = FiveShapes();
      spec.params.push_back({{70, 66}});
      SizesOfRanks sizes(kind);
      DeviceRanks ranks(spec, kind, sizes.allocators());
      for (int rank = 0; rank < kind.world(); ++rank) {
        const std::vector<size_t>& all = sizes[rank].all;
        REQUIRE(all.size() == 4);  // workspace, state, exchanges, and memory for error messages
        CHECK(all[0] + all[2] <= sizes.PlannedWorkspace(ranks[rank]));
        CHECK((all[0] + all[2]) * 3 >= sizes.PlannedWorkspace(ranks[rank]));
        CHECK(all[1] == PlannedBytes(ranks[rank].plan.get(), "state"));
      }
      ranks.Train(1, 4);
      for (int rank = 0; rank < kind.world(); ++rank) CHECK(sizes[rank].all.size() == 4);
    }
  }
}

}  // namespace
}  // namespace shampoo_test
