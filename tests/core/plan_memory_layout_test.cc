// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>

#include "core/backend/cpu/slot_memory.h"
#include "core/plan/memory_layout.h"
#include "core/plan/plan.h"
#include "core/state/entries.h"
#include "tests/core/plan_test_util.h"

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

}  // namespace
}  // namespace shampoo
