// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Blocks that are gathered from shards (shard_mode gather). Their steps equal those of the model without shards, and
// are bit-identical on the fake.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <filesystem>

#include "tests/cuda/contract/rank_steps.h"
#include "tests/cuda/contract/sizes.h"

namespace shampoo_test {
namespace {

struct Layout {
  int copies, shards;
  bool has_all_to_all;
};
constexpr Layout kLayouts[] = {{1, 2, false}, {1, 3, true}, {2, 2, false}, {2, 2, true}};

const Keys kGather = {{"shard_mode", "gather"}};

// A model without shards, and the same model in gathered shards.
struct Sharded {
  Sharded(const ModelSpec& spec, const Layout& layout, const Keys& more = {})
      : whole(spec, stream), ranks(Gathered(spec, more), layout.copies, layout.shards, nullptr, layout.has_all_to_all) {
    whole.FillParams(1);
    whole.FillGradients(1);
    ranks.SetFrom(whole);
  }
  static ModelSpec Gathered(ModelSpec spec, const Keys& more) {
    spec.keys = spec.keys + kGather + more;
    return spec;
  }
  // Makes a step with the gradients of this seed.
  void Step(uint64_t seed) {
    whole.FillGradients(seed);
    SetGradients();
    StepBoth();
  }
  void SetGradients() {
    for (int rank = 0; rank < ranks.world(); ++rank) {
      for (size_t p = 0; p < whole.params(); ++p) ranks.SetGradientFrom(whole, rank, p);
    }
  }
  void StepBoth() {
    whole.Step();
    ranks.Step();
    REQUIRE(ranks.DifferencesFrom(SHAMPOO_OK) == "");
  }
  void Drop(size_t p, bool dropped) {
    whole.DropGradient(p, dropped);
    for (int rank = 0; rank < ranks.world(); ++rank) ranks[rank].DropGradient(p, dropped);
  }
  void CheckEqual(double tolerance_on_gpu = 1e-4) {
    ranks.Status();
    REQUIRE(ranks.DifferencesFrom(SHAMPOO_OK) == "");
    ranks.CheckShardsOf(whole, tolerance_on_gpu);
  }

  TestStream stream;
  Model whole;
  DeviceRanks ranks;
};

// Options of steps. Every second step refreshes roots. With comm_bucket_bytes, each exchange is divided.
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
    for (const Layout& layout : kLayouts) {
      CAPTURE(options.empty() ? "" : options[0].first + " " + options[0].second);
      CAPTURE(layout.copies);
      CAPTURE(layout.shards);
      CAPTURE(layout.has_all_to_all);
      const Stage stage;
      ModelSpec spec = FiveShapes(options);
      // Every dtype, a copy of a parameter, a separate output, a second group, and shards without elements.
      spec.params[0] = {{4, 3}, SHAMPOO_BF16, SHAMPOO_BF16, SHAMPOO_BF16};
      spec.params[1] = {{5}, SHAMPOO_F16, SHAMPOO_F32, SHAMPOO_F16};
      spec.params[2].copy_dtype = SHAMPOO_BF16;
      spec.params[3] = {{6, 6}, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F64};
      spec.params[4].in_place = false;
      spec.groups = {{{"lr", "0.25"}}};
      spec.params[4].group = 1;
      spec.params.push_back({{1}});
      spec.params.push_back({{70, 66}});  // several tiles
      Sharded sharded(spec, layout);
      for (uint64_t t = 1; t <= 5; ++t) {
        sharded.Drop(4, t == 3);  // the only parameter of its group
        sharded.Drop(6, t == 2);  // its only element is on one shard
        sharded.Step(t);
      }
      // States in 16 bits that are rounded to another neighbor change the next steps.
      const bool is_narrow = options.size() > 1 && options[1].first == "factor_dtype";
      sharded.CheckEqual(is_narrow ? 1e-2 : 1e-4);
      CHECK(sharded.ranks[0].Stat("step.0") == 5);
      CHECK(sharded.ranks[0].Stat("step.1") == 4);
    }
  }
}

TEST_CASE("a gathered block without a usable gradient is skipped and counted once on each rank") {
  for (const Layout& layout : kLayouts) {
    CAPTURE(layout.copies);
    CAPTURE(layout.has_all_to_all);
    const Stage stage;
    Sharded sharded(FiveShapes({{"on_nonfinite", "skip_block"}, {"status_lag", "0"}}), layout);
    sharded.Step(1);
    sharded.whole.FillGradients(2);
    sharded.whole.SpoilGradient(3, 20, NAN);
    sharded.SetGradients();
    sharded.StepBoth();
    sharded.CheckEqual();
    CHECK(sharded.whole.Stat("nonfinite_blocks") == 1);
    for (int rank = 0; rank < sharded.ranks.world(); ++rank) CHECK(sharded.ranks[rank].Stat("nonfinite_blocks") == 1);
    sharded.Step(3);
    sharded.CheckEqual();
  }
}

TEST_CASE("an error of a gathered block names its element in the whole parameter, and changes nothing on any rank") {
  for (const Layout& layout : kLayouts) {
    CAPTURE(layout.copies);
    CAPTURE(layout.has_all_to_all);
    const Stage stage;
    Sharded sharded(FiveShapes({{"status_lag", "0"}, {"max_preconditioner_dim", "4"}}), layout);
    sharded.Step(1);
    sharded.whole.FillGradients(2);
    sharded.whole.SpoilGradient(3, 20, NAN);
    sharded.SetGradients();
    CHECK(sharded.whole.TryStep() == SHAMPOO_E_NUMERIC);
    const std::string expected = shampoo_last_error();
    std::vector<std::vector<char>> before;
    for (int rank = 0; rank < sharded.ranks.world(); ++rank) before.push_back(BitsOf(sharded.ranks[rank]));
    sharded.ranks.Step();
    // The message begins with the rank that found the error.
    CHECK(sharded.ranks.DifferencesFrom(SHAMPOO_E_NUMERIC, {"shard rank ", expected.substr(0, expected.find(':'))}) ==
          "");
    CHECK(sharded.ranks.text(0).find("had begun the step") == std::string::npos);
    for (int rank = 0; rank < sharded.ranks.world(); ++rank) {
      CHECK(BitsOf(sharded.ranks[rank]) == before[static_cast<size_t>(rank)]);
    }
    sharded.Step(3);
    sharded.CheckEqual();
  }
}

// Only the owner of a block knows its state.
TEST_CASE("a gathered block whose state would overflow is skipped, and all ranks return the error in the next step") {
  for (const Layout& layout : kLayouts) {
    for (const char* choice : {"error", "skip_block"}) {
      CAPTURE(layout.copies);
      CAPTURE(std::string(choice));
      const Stage stage;
      ModelSpec spec = FiveShapes({{"factor_dtype", "f16"}, {"beta2", "1"}, {"on_nonfinite", choice}});
      spec.keys = spec.keys + Keys{{"status_lag", "0"}} + kGather;
      DeviceRanks ranks(spec, layout.copies, layout.shards, nullptr, layout.has_all_to_all);
      ranks.FillParams(1);
      // Each step adds 6 * 80^2 = 38400 to a factor matrix in float16: one step fits, and two do not.
      const auto fill = [&] {
        for (int rank = 0; rank < ranks.world(); ++rank) {
          std::vector<double> gradient(ranks[rank].elements(3), 80);
          ranks[rank].SetGradient(3, gradient);
        }
      };
      ranks.FillGradients(1);
      fill();
      ranks.Step();
      CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
      const auto before = ranks[0].ParamValues(3);
      ranks.Step();
      CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
      CHECK(ranks[0].ParamValues(3) == before);
      CHECK(ranks[0].Stat("nonfinite_blocks") == 1);
      ranks.FillGradients(2);
      ranks.Step();
      if (choice == std::string("error")) {
        CHECK(ranks.DifferencesFrom(SHAMPOO_E_NUMERIC, {"the direction of block p3/0"}) == "");
        ranks.Step();
      }
      CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
    }
  }
}

// The owner of a block measures its roots, which are those of the model without shards.
TEST_CASE("with gathered shards, each root is measured once, with the residuals of the model without shards") {
  for (const Layout& layout : kLayouts) {
    for (const char* device : {"device", "host"}) {
      CAPTURE(layout.copies);
      CAPTURE(layout.has_all_to_all);
      CAPTURE(std::string(device));
      const Stage stage;
      Sharded sharded(FiveShapes({{"track_root_residuals", "true"},
                                  {"root_async", "1"},
                                  {"root_device", device},
                                  {"precondition_frequency", "4"},
                                  {"status_lag", "0"}}),
                      layout);
      // The roots of step 8 are used from step 9 on.
      for (uint64_t t = 1; t <= 9; ++t) sharded.Step(t);
      sharded.CheckEqual();
      for (const char* stat : {"root_error.max", "root_residual.max"}) {
        CAPTURE(std::string(stat));
        double largest = 0;
        for (int rank = 0; rank < sharded.ranks.world(); ++rank) {
          largest = std::max(largest, sharded.ranks[rank].Stat(stat));
        }
        CHECK(largest > 0);
        const double expected = sharded.whole.Stat(stat);
        if (OnFake()) {
          CHECK(largest == expected);
        } else {  // residuals are rounding errors, so only their magnitudes agree
          CHECK(std::fabs(largest - expected) <= 16 * static_cast<double>(FLT_EPSILON) + 0.5 * expected);
        }
      }
      double computed = 0;
      for (int rank = 0; rank < sharded.ranks.world(); ++rank) computed += sharded.ranks[rank].Stat("root_computed");
      CHECK(computed == sharded.whole.Stat("root_computed"));
    }
  }
}

TEST_CASE("gathered shards allocate the planned memory, and nothing in a step") {
  for (const Layout& layout : kLayouts) {
    for (const char* bucket : {"0", "64"}) {
      CAPTURE(layout.copies);
      CAPTURE(layout.has_all_to_all);
      CAPTURE(std::string(bucket));
      const Stage stage;
      ModelSpec spec = FiveShapes(kGather + Keys{{"comm_bucket_bytes", bucket}});
      spec.params.push_back({{70, 66}});
      const int world = layout.copies * layout.shards;
      std::vector<Sizes> sizes(static_cast<size_t>(world));
      std::vector<shampoo_allocator> allocators;
      for (Sizes& of_rank : sizes) allocators.push_back(of_rank.allocator());
      DeviceRanks ranks(spec, layout.copies, layout.shards, allocators.data(), layout.has_all_to_all);
      const char* const what = layout.has_all_to_all ? "workspace" : "workspace.all_gather";
      for (int rank = 0; rank < world; ++rank) {
        const std::vector<size_t>& all = sizes[static_cast<size_t>(rank)].all;
        REQUIRE(all.size() == 4);  // workspace, state, exchanges, and memory for error messages
        const auto planned = [&](const char* bytes_of) {
          int64_t bytes = 0;
          Must(shampoo_plan_bytes(ranks[rank].plan.get(), -1, bytes_of, &bytes));
          return static_cast<size_t>(bytes);
        };
        CHECK(all[0] + all[2] <= planned(what));
        CHECK((all[0] + all[2]) * 3 >= planned(what));
        CHECK(all[1] == planned("state"));
      }
      ranks.FillParams(1);
      ranks.Train(1, 4);
      CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
      for (const Sizes& of_rank : sizes) CHECK(of_rank.all.size() == 4);
    }
  }
}

}  // namespace
}  // namespace shampoo_test
