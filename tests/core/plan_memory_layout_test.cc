// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "core/plan/memory_layout.h"
#include "core/plan/plan.h"
#include "core/state/entries.h"
#include "tests/core/status_check.h"
#include "tests/core/step_fixture.h"

namespace shampoo {
namespace {

std::unique_ptr<Plan> PlanOf(const OptionKeys& keys, const std::vector<std::vector<int64_t>>& shapes, int world = 1) {
  std::unique_ptr<Plan> plan;
  StepFixture::Ok(StepFixture::CreatePlan(
      {.keys = keys, .params = StepFixture::Describe(shapes), .placement = ReplicaPlacement(0, world)}, &plan));
  return plan;
}

const std::vector<std::vector<int64_t>> kMixedShapes = {{37, 21}, {5}, {}, {3, 4, 5, 2}, {0, 4}};

TEST_CASE("the states of a rank are aligned in its arena without overlap and fill the predicted size") {
  const OptionKeys keys = "preset=shampoo_2024 grafting=adam momentum=0.9 max_preconditioner_dim=8 factor_dtype=bf16";
  for (int world : {1, 3, 100}) {
    const auto plan = PlanOf(keys, kMixedShapes, world);
    int64_t entries_seen = 0;
    for (int rank = 0; rank < world; ++rank) {
      PlanData of_rank = *plan->data();
      of_rank.placement.replica_rank = rank;
      std::vector<StateEntry> entries = ListEntries(of_rank);
      int64_t bytes = 0;
      REQUIRE(plan->Bytes(rank, "state", &bytes).ok());
      CHECK(bytes % kArenaAlignment == 0);
      std::ranges::sort(entries, {}, &StateEntry::arena_offset);
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
      entries_seen += static_cast<int64_t>(entries.size()) - 1;  // the step counter is not counted: every rank has it
    }
    CHECK(entries_seen == static_cast<int64_t>(ListEntries(*PlanOf(keys, kMixedShapes)->data()).size()) - 1);
  }
}

TEST_CASE("whether a parameter is a vector is decided before dims are merged") {
  const auto plan = PlanOf("merge_min_dim=0", kMixedShapes);
  std::vector<std::pair<int64_t, bool>> blocks;  // the number of elements, and whether there are factor matrices
  for (const Block& block : plan->data()->blocks) {
    CHECK(block.order() <= 1);
    blocks.emplace_back(block.elements, block.is_preconditioned);
  }
  CHECK(blocks == std::vector<std::pair<int64_t, bool>>{{777, true}, {5, false}, {1, false}, {120, true}});
}

TEST_CASE("a vector may be longer than the largest matrix size of the eigensolver, unless precondition_1d is true") {
  for (const char* const precondition_1d : {"false", "true"}) {
    std::unique_ptr<Plan> plan;
    const Status status =
        StepFixture::CreatePlan({.keys = Cat("max_preconditioner_dim=90000 precondition_1d=", precondition_1d),
                                 .params = StepFixture::Describe({{90000}})},
                                &plan);
    CheckOkIf(std::string(precondition_1d) == "false", status, Code::kInvalid,
              "the largest that the eigensolver takes");
  }
}

TEST_CASE("the settings determine which states exist") {
  const OptionKeys preset = "preset=shampoo_2024";
  const auto count_of = [&](const OptionKeys& keys, const char* suffix) {
    return std::ranges::count_if(ListEntries(*PlanOf(preset + keys, kMixedShapes)->data()),
                                 [&](const StateEntry& entry) { return entry.key.ends_with(suffix); });
  };
  const auto blocks = static_cast<int64_t>(PlanOf(preset, kMixedShapes)->data()->blocks.size());
  CHECK(count_of({}, "/filtered_grad") == blocks);
  CHECK(count_of({}, "/momentum") == 0);
  CHECK(count_of({}, "/grafting") == 0);
  const OptionKeys sgd = "beta1=0 grafting=sgd";
  CHECK(count_of(sgd, "/filtered_grad") == 0);
  CHECK(count_of(sgd, "/grafting") == 0);
  const OptionKeys rmsprop = "beta1=0 grafting=rmsprop momentum=0.5";
  CHECK(count_of(rmsprop, "/grafting") == blocks);
  CHECK(count_of(rmsprop, "/momentum") == blocks);
}

TEST_CASE("an elementwise method stores at most 8 bytes for each element of a float32 parameter") {
  struct States {
    const char* method;
    int64_t bytes;  // per element
  };
  for (const auto& [method, bytes] : {States{"adam", 8}, {"adagrad", 4}, {"rmsprop", 4}, {"sgd", 0}}) {
    CAPTURE(std::string(method));
    const auto plan = PlanOf(Cat("method=", method), kMixedShapes)->data();
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

TEST_CASE(
    "the states of square blocks take 20 bytes per element with method soap, 16 with kl_shampoo and 8 with adam") {
  struct Case {
    const char* method;
    double bytes;
  };
  for (const auto& [method, bytes] : {Case{"soap", 20}, {"kl_shampoo", 16}, {"adam", 8}}) {
    CAPTURE(std::string(method));
    for (const int64_t d : {128, 512, 1000}) {
      const auto state = static_cast<double>(PlanOf(Cat("method=", method), {{d, d}})->data()->state_bytes());
      CHECK(state / static_cast<double>(d * d) == doctest::Approx(bytes).epsilon(0.01));
    }
  }
}

// Returns the names of the states of the first block, in the order of ListEntries().
std::vector<std::string> StatesOf(const OptionKeys& keys, const std::vector<int64_t>& shape) {
  std::vector<std::string> names;
  for (const StateEntry& entry : ListEntries(*PlanOf(keys, {shape})->data())) {
    if (entry.block == 0) names.emplace_back(entry.state());
  }
  return names;
}

TEST_CASE("the methods soap and kl_shampoo have factor matrices and bases only for the dims that are preconditioned") {
  using Names = std::vector<std::string>;
  const std::vector<int64_t> matrix = {6, 4};
  CHECK(StatesOf("method=soap", matrix) ==
        Names{"factor.0", "factor.1", "basis.0", "basis.1", "gradient_count", "filtered_grad", "second_moment"});
  CHECK(StatesOf("method=kl_shampoo", matrix) == Names{"factor.0", "factor.1", "basis.0", "kl_scale.0", "basis.1",
                                                       "kl_scale.1", "gradient_count", "filtered_grad"});
  CHECK(StatesOf("method=soap factor_correction=kl beta1=0 skip_dim_size=5", matrix) ==
        Names{"factor.1", "basis.1", "kl_scale.1", "gradient_count", "second_moment"});
  // A block without factor matrices has the states of method adam and a gradient_count, even with kl_shampoo.
  for (const char* const method : {"soap", "kl_shampoo"}) {
    const Names adam = {"gradient_count", "filtered_grad", "second_moment"};
    CHECK(StatesOf(Cat("method=", method), {9}) == adam);
    CHECK(StatesOf(Cat("skip_dim_size=3 method=", method), matrix) == adam);
  }
  CHECK(StatesOf("method=soap precondition_1d=true", {9}) ==
        Names{"factor.0", "basis.0", "gradient_count", "filtered_grad", "second_moment"});
  // With norm_control=hyperball, only tensors with two or more dims have the state named radius.
  CHECK(StatesOf("method=sgd norm_control=hyperball", matrix) == Names{"radius"});
  CHECK(StatesOf("method=sgd norm_control=hyperball", {9}).empty());
}

TEST_CASE("method soap stores the lower triangle of a factor matrix and all elements of a basis") {
  const auto plan = PlanOf("method=soap factor_dtype=bf16", {{6, 4}});
  for (const StateEntry& entry : ListEntries(*plan->data())) {
    if (entry.state() == "factor.0") CHECK(entry.stored_bytes == 21 * 2);
    if (entry.state() == "basis.0") CHECK(entry.stored_bytes == 36 * 4);
  }
}

TEST_CASE("if a key uses norms of whole tensors, a parameter that is divided into several blocks is rejected") {
  for (const char* const key : {"update_norm=rms", "norm_control=hyperball", "max_update_rms=0.5"}) {
    CAPTURE(std::string(key));
    StepFixture::Setup setup{.keys = Cat("method=soap max_preconditioner_dim=8 ", key),
                             // The vector has no factor matrices, so it is one block although it is long.
                             .params = StepFixture::Describe({{8, 8}, {100000}})};
    CHECK(StepFixture::MakePlan(setup)->blocks.size() == 2);
    setup.params = StepFixture::Describe({{8, 8}, {100000}, {8, 9}});
    std::unique_ptr<Plan> plan;
    CheckError(StepFixture::CreatePlan(setup, &plan), Code::kInvalid,
               Cat("a tensor of shape (8, 9) is divided into 2 blocks: expected a single block, because the group uses "
                   "norms of whole tensors (one of the keys ",
                   kNormKeys, "); set max_preconditioner_dim to at least 9"));
  }
}

}  // namespace
}  // namespace shampoo
