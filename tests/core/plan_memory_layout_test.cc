// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "core/backend/cpu/slot_memory.h"
#include "core/plan/memory_layout.h"
#include "core/plan/plan.h"
#include "core/state/entries.h"
#include "tests/core/plan_test_util.h"
#include "tests/core/status_check.h"

namespace shampoo {
namespace {

std::unique_ptr<Plan> PlanOf(const Config& config, int world) {
  std::unique_ptr<Plan> plan;
  Placement placement;
  placement.threads = 2;
  placement.replica_world = world;
  REQUIRE(Plan::Create(config, placement, CpuWorkspaceBytes, &plan).ok());
  const std::vector<Shape> shapes = {Shape::Of({37, 21}), Shape::Of({5}), Shape{}, Shape::Of({3, 4, 5, 2}),
                                     Shape::Of({0, 4})};
  for (size_t i = 0; i < shapes.size(); ++i) {
    ParamDesc desc;
    desc.name = Cat("p", i);
    desc.shape = shapes[i];
    int index = 0;
    REQUIRE(plan->AddParam(desc, &index).ok());
  }
  REQUIRE(plan->Finish().ok());
  return plan;
}

TEST_CASE("the states of a rank are consecutive and aligned in its arena and fill the predicted size") {
  Config config;
  REQUIRE(config.SetText("preset", "shampoo_2024").ok());
  REQUIRE(config.SetText("grafting", "adam").ok());
  REQUIRE(config.SetNumber("momentum", 0.9).ok());
  REQUIRE(config.SetInteger("max_preconditioner_dim", 8).ok());
  REQUIRE(config.SetText("factor_dtype", "bf16").ok());
  for (int world : {1, 3, 100}) {
    const auto plan = PlanOf(config, world);
    int64_t entries_seen = 0;
    for (int rank = 0; rank < world; ++rank) {
      PlanData of_rank = *plan->data();
      of_rank.placement.replica_rank = rank;
      std::vector<StateEntry> entries = ListEntries(of_rank);
      int64_t bytes = 0;
      REQUIRE(plan->Bytes(rank, "state", &bytes).ok());
      CHECK(bytes % kArenaAlignment == 0);
      std::sort(entries.begin(), entries.end(),
                [](const StateEntry& a, const StateEntry& b) { return a.arena_offset < b.arena_offset; });
      int64_t end = 0;
      int64_t stored = 0;
      for (const StateEntry& entry : entries) {
        CAPTURE(entry.key);
        CHECK(entry.owner == rank);
        CHECK(entry.arena_offset >= end);
        CHECK((entry.arena_offset % kStateAlignment == 0 || entry.dtype == Dtype::kI64));
        end = entry.arena_offset + entry.stored_bytes;
        stored += entry.stored_bytes;
      }
      CHECK(end <= bytes);
      CHECK(bytes - stored < static_cast<int64_t>(entries.size() + 1) * kStateAlignment + kArenaAlignment);
      entries_seen += static_cast<int64_t>(entries.size()) - 1;  // without the step counter, which every rank has
    }
    const auto single = PlanOf(config, 1);
    CHECK(entries_seen == static_cast<int64_t>(ListEntries(*single->data()).size()) - 1);
  }
}

TEST_CASE("whether a parameter is a vector is decided before dims are merged") {
  Config config;
  REQUIRE(config.SetInteger("merge_min_dim", 0).ok());
  const auto plan = PlanOf(config, 1);
  std::vector<std::pair<int64_t, bool>> blocks;  // elements; whether there are factor matrices
  for (const Block& block : plan->data()->blocks) {
    CHECK(block.order() <= 1);
    blocks.emplace_back(block.elements, block.is_preconditioned);
  }
  CHECK(blocks == std::vector<std::pair<int64_t, bool>>{{777, true}, {5, false}, {1, false}, {120, true}});
}

TEST_CASE("a vector that is not preconditioned may exceed the limit of the eigensolver") {
  for (const bool is_preconditioned : {false, true}) {
    Config config;
    REQUIRE(config.SetText("precondition_1d", is_preconditioned ? "true" : "false").ok());
    REQUIRE(config.SetInteger("max_preconditioner_dim", 90000).ok());
    std::unique_ptr<Plan> plan;
    REQUIRE(Plan::Create(config, {}, CpuWorkspaceBytes, &plan).ok());
    ParamDesc desc;
    desc.name = "v";
    desc.shape = Shape::Of({90000});
    int index = 0;
    REQUIRE(plan->AddParam(desc, &index).ok());
    CHECK(plan->Finish().ok() == !is_preconditioned);
  }
}

TEST_CASE("the settings determine which states exist") {
  auto count_of = [](const Config& config, const char* suffix) {
    const auto plan = PlanOf(config, 1);
    const auto entries = ListEntries(*plan->data());
    return std::count_if(entries.begin(), entries.end(), [&](const StateEntry& e) { return e.key.ends_with(suffix); });
  };
  Config config;
  REQUIRE(config.SetText("preset", "shampoo_2024").ok());
  const auto blocks = static_cast<int64_t>(PlanOf(config, 1)->data()->blocks.size());
  CHECK(count_of(config, "/filtered_grad") == blocks);
  CHECK(count_of(config, "/momentum") == 0);
  CHECK(count_of(config, "/grafting") == 0);
  REQUIRE(config.SetNumber("beta1", 0).ok());
  REQUIRE(config.SetText("grafting", "sgd").ok());
  CHECK(count_of(config, "/filtered_grad") == 0);
  CHECK(count_of(config, "/grafting") == 0);
  REQUIRE(config.SetText("grafting", "rmsprop").ok());
  REQUIRE(config.SetNumber("momentum", 0.5).ok());
  CHECK(count_of(config, "/grafting") == blocks);
  CHECK(count_of(config, "/momentum") == blocks);
}

TEST_CASE("an elementwise method stores at most 8 bytes for each element of a float32 parameter") {
  struct States {
    const char* method;
    int64_t bytes;  // per element
  };
  for (const auto& [method, bytes] : {States{"adam", 8}, {"adagrad", 4}, {"rmsprop", 4}, {"sgd", 0}}) {
    CAPTURE(method);
    Config config;
    REQUIRE(config.SetText("method", method).ok());
    const auto plan = PlanOf(config, 1)->data();
    int64_t elements = 0;
    for (const Block& block : plan->blocks) {
      CHECK(!block.is_preconditioned);
      CHECK(!block.grafting.present());
      CHECK(block.second_moment.present() == (bytes > 0));
      elements += block.elements;
    }
    int64_t stored = 0;
    for (const StateEntry& entry : ListEntries(*plan)) {
      if (entry.block >= 0) stored += entry.span_bytes();
    }
    CHECK(stored == bytes * elements);
  }
}

// Returns the plan of one parameter.
std::unique_ptr<Plan> PlanOfShape(const std::vector<std::pair<const char*, const char*>>& keys, const Shape& shape) {
  Config config;
  for (const auto& [key, value] : keys) REQUIRE(config.SetText(key, value).ok());
  std::unique_ptr<Plan> plan;
  REQUIRE(Plan::Create(config, {}, CpuWorkspaceBytes, &plan).ok());
  ParamDesc desc;
  desc.name = "w";
  desc.shape = shape;
  int index = 0;
  REQUIRE(plan->AddParam(desc, &index).ok());
  REQUIRE(plan->Finish().ok());
  return plan;
}

TEST_CASE(
    "the states of square blocks take 20 bytes per element with method soap, 16 with kl_shampoo and 8 with adam") {
  struct Case {
    const char* method;
    double bytes;
  };
  for (const auto& [method, bytes] : {Case{"soap", 20}, {"kl_shampoo", 16}, {"adam", 8}}) {
    CAPTURE(method);
    for (const int64_t d : {128, 512, 1000}) {
      const auto plan = PlanOfShape({{"method", method}}, Shape::Of({d, d}));
      int64_t state = 0;
      REQUIRE(plan->Bytes(0, "state", &state).ok());
      const auto elements = static_cast<double>(d * d);
      CHECK(static_cast<double>(state) / elements == doctest::Approx(bytes).epsilon(0.01));
    }
  }
}

// Returns the names of the states of the first block, in the order of the arena.
std::vector<std::string> StatesOf(const std::vector<std::pair<const char*, const char*>>& keys, const Shape& shape) {
  const auto plan = PlanOfShape(keys, shape);
  std::vector<std::string> names;
  for (const StateEntry& entry : ListEntries(*plan->data())) {
    if (entry.block == 0) names.emplace_back(entry.state());
  }
  return names;
}

TEST_CASE("methods in eigenbases have the states of the dims that are preconditioned") {
  using Names = std::vector<std::string>;
  const Shape matrix = Shape::Of({6, 4});
  CHECK(StatesOf({{"method", "soap"}}, matrix) ==
        Names{"factor.0", "factor.1", "basis.0", "basis.1", "gradient_count", "filtered_grad", "second_moment"});
  CHECK(StatesOf({{"method", "kl_shampoo"}}, matrix) == Names{"factor.0", "factor.1", "basis.0", "kl_scale.0",
                                                              "basis.1", "kl_scale.1", "gradient_count",
                                                              "filtered_grad"});
  CHECK(StatesOf({{"method", "soap"}, {"factor_correction", "kl"}, {"beta1", "0"}, {"skip_dim_size", "5"}}, matrix) ==
        Names{"factor.1", "basis.1", "kl_scale.1", "gradient_count", "second_moment"});
  // Without factor matrices: the states of Adam and a gradient_count, also for kl_shampoo.
  for (const char* const method : {"soap", "kl_shampoo"}) {
    const Names adam = {"gradient_count", "filtered_grad", "second_moment"};
    CHECK(StatesOf({{"method", method}}, Shape::Of({9})) == adam);
    CHECK(StatesOf({{"method", method}, {"skip_dim_size", "3"}}, matrix) == adam);
  }
  CHECK(StatesOf({{"method", "soap"}, {"precondition_1d", "true"}}, Shape::Of({9})) ==
        Names{"factor.0", "basis.0", "gradient_count", "filtered_grad", "second_moment"});
  // Only tensors of two or more dims have a radius.
  CHECK(StatesOf({{"method", "sgd"}, {"norm_control", "hyperball"}}, matrix) == Names{"radius"});
  CHECK(StatesOf({{"method", "sgd"}, {"norm_control", "hyperball"}}, Shape::Of({9})).empty());
}

TEST_CASE("only the lower triangle of a factor matrix of soap is stored, and a basis is complete") {
  const auto plan = PlanOfShape({{"method", "soap"}, {"factor_dtype", "bf16"}}, Shape::Of({6, 4}));
  for (const StateEntry& entry : ListEntries(*plan->data())) {
    if (entry.state() == "factor.0") CHECK(entry.stored_bytes == 21 * 2);
    if (entry.state() == "basis.0") CHECK(entry.stored_bytes == 36 * 4);
  }
}

TEST_CASE("keys that control norms require one block for each parameter") {
  for (const char* const key : {"update_norm", "norm_control", "max_update_rms"}) {
    CAPTURE(key);
    const char* const value = std::string(key) == "update_norm"    ? "rms"
                              : std::string(key) == "norm_control" ? "hyperball"
                                                                   : "0.5";
    Config config;
    REQUIRE(config.SetText("method", "soap").ok());
    REQUIRE(config.SetText(key, value).ok());
    REQUIRE(config.SetInteger("max_preconditioner_dim", 8).ok());
    std::unique_ptr<Plan> plan;
    REQUIRE(Plan::Create(config, {}, CpuWorkspaceBytes, &plan).ok());
    ParamDesc desc;
    int index = 0;
    desc.name = "w";
    desc.shape = Shape::Of({8, 8});
    REQUIRE(plan->AddParam(desc, &index).ok());
    desc.name = "v";  // without factor matrices, so that its size does not matter
    desc.shape = Shape::Of({100000});
    REQUIRE(plan->AddParam(desc, &index).ok());
    desc.name = "x";
    desc.shape = Shape::Of({8, 9});
    Status added = plan->AddParam(desc, &index);
    CheckError(added.ok() ? plan->Finish() : std::move(added), Code::kInvalid,
               Cat("a tensor of shape (8, 9) is divided into 2 blocks: expected a single block, because the group uses "
                   "norms of whole tensors (one of the keys ",
                   kNormKeys, "); set max_preconditioner_dim to at least 9"));
  }
}

}  // namespace
}  // namespace shampoo
