// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of shampoo_optimizer_export() on several ranks.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/capture.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

// The exported averages of all ranks.
using Exported = std::vector<Tensors>;

RankSpec AveragingSpec(const Keys& more = {}) {
  return {.keys = "method=adam lr=0.1 averaging=schedule_free" + more,
          .groups = {"method=adam lr=0.1 weight_ema=0.5", "method=adam lr=0.1"},
          .params = {{"matrix", {9, 7}}, {"vector", {12}, 1}, {"tensor", {3, 4, 2}}, {"plain", {5}, 2}}};
}

Exported Export(Grid* grid, double blend) {
  Exported exported(static_cast<size_t>(grid->world()));
  OnEveryRank(grid->world(), [&](int rank) { (*grid)[rank].Export(blend, &exported[static_cast<size_t>(rank)]); });
  return exported;
}

constexpr Kind kExportingKinds[] = {{2, 1},           {3, 1}, {1, 2, "gather"}, {1, 3, "gather", false},
                                    {2, 2, "gather"}, {2, 2}};

TEST_CASE("every rank exports averages that are bit-identical to those of a single rank") {
  for (const Kind kind : kExportingKinds) {
    for (const Keys& bucket : Combinations("comm_bucket_bytes=0|600")) {
      CAPTURE_ALL(kind, bucket);
      Grid grid(AveragingSpec(bucket), kind);
      Grid one(AveragingSpec(), Kind{1, 1});
      for (Grid* const each : {&grid, &one}) {
        RequireStart(each);
        RunSteps(each, 101, 103);
      }
      for (const double blend : {1.0, 0.25}) {
        const Exported exported = Export(&grid, blend);
        RequireOk(grid);
        const Exported expected = Export(&one, blend);
        for (int rank = 0; rank < grid.world(); ++rank) {
          CHECK(SameBits(exported[static_cast<size_t>(rank)], PartOf(grid.spec(rank).params, expected[0])));
        }
      }
      CHECK(!SameBits(one[0].w, Export(&one, 1)[0]));
      RunSteps(&grid, 104, 105);
      RunSteps(&one, 104, 105);
      CHECK(grid.AllHold(one[0].w));
    }
  }
}

TEST_CASE("an export succeeds after a step that failed because one rank had no gradient") {
  for (const Kind kind : {Kind{1, 2, "gather"}, Kind{2, 2, "gather"}, Kind{2, 2}}) {
    CAPTURE(kind);
    Grid grid(AveragingSpec(), kind);
    RequireStart(&grid);
    RunSteps(&grid, 101, 102);
    const Exported before = Export(&grid, 1);
    RequireOk(grid);
    grid[1].has_grad[0] = false;
    grid.Step();
    CHECK(grid[0].status != SHAMPOO_OK);
    const Exported after = Export(&grid, 1);
    RequireOk(grid);
    // With several replicas, some replicas learned of the error only after they had updated their states.
    if (kind.replicas == 1) CHECK(SameBits(after, before));
  }
}

// Returns the elements of a float32 state, or no elements if another rank owns the state.
std::vector<float> StateOf(const Rank& rank, const std::string& key) {
  for (const StateEntry& entry : EntriesOf(rank)) {
    if (key != entry.key) continue;
    const std::vector<char> bytes = ReadBytes(rank, entry);
    REQUIRE(!bytes.empty());
    const auto* const values = reinterpret_cast<const float*>(bytes.data());
    return std::vector<float>(values, values + entry.elements);
  }
  return {};
}

TEST_CASE("with a narrow communication_dtype, averages are computed from the parameters after the exchange") {
  for (const Keys& keys :
       Combinations("method=adam lr=0.1 weight_ema=0.5 communication_dtype=bf16 communicate=updates|params")) {
    CAPTURE(keys);
    const RankSpec spec = {.keys = keys, .params = {{"matrix", {9, 7}}, {"vector", {12}}}};
    Grid grid(spec, 2, 1);
    RequireStart(&grid);
    RunSteps(&grid, 101, 101);
    Tensors average = grid[0].w;  // the average starts with the parameters after the first step
    for (uint64_t seed = 102; seed <= 104; ++seed) {
      RunSteps(&grid, seed, seed);
      for (size_t p = 0; p < average.size(); ++p) {
        for (size_t i = 0; i < average[p].size(); ++i) average[p][i] = (average[p][i] + grid[0].w[p][i]) / 2;
      }
    }
    CHECK(SameBits(grid[0].w, grid[1].w));
    int checked = 0;
    for (int rank = 0; rank < 2; ++rank) {
      for (size_t p = 0; p < average.size(); ++p) {
        const std::vector<float> offset = StateOf(grid[rank], spec.params[p].name + "/0/ema_offset");
        for (size_t i = 0; i < offset.size(); ++i, ++checked) {
          CHECK(std::fabs(grid[0].w[p][i] + offset[i] - average[p][i]) < 1e-6F);
        }
      }
    }
    CHECK(checked == 9 * 7 + 12);
  }
}

TEST_CASE("an export with a bad argument on one rank fails on all ranks, and training continues") {
  for (const Kind kind : kExportingKinds) {
    for (const Keys& bucket : Combinations("comm_bucket_bytes=0|600")) {
      for (int odd = 0; odd < kind.world(); ++odd) {
        CAPTURE_ALL(kind, bucket, odd);
        Grid grid(AveragingSpec(bucket), kind);
        RequireStart(&grid);
        RunSteps(&grid, 101, 102);
        const std::vector<Tensors> before = ParamsOf(&grid);
        Exported exported(static_cast<size_t>(grid.world()));
        OnEveryRank(grid.world(),
                    [&](int rank) { grid[rank].Export(rank == odd ? 2 : 1, &exported[static_cast<size_t>(rank)]); });
        CheckFailed(&grid, SHAMPOO_E_INVALID, {"blend is 2"});
        CHECK_FALSE(Has(grid.Errors(), "had begun the step"));
        CHECK(SameBits(ParamsOf(&grid), before));
        Export(&grid, 1);
        RequireOk(grid);
        RunSteps(&grid, 103, 104);
      }
    }
  }
}

TEST_CASE("all ranks return an error if one rank exports while the others make a step") {
  for (const Kind kind : kExportingKinds) {
    for (int odd = 0; odd < kind.world(); ++odd) {
      CAPTURE_ALL(kind, odd);
      Grid grid(AveragingSpec(), kind);
      RequireStart(&grid);
      for (int rank = 0; rank < grid.world(); ++rank) grid[rank].has_grad[0] = false;  // parameter 0 is frozen
      RunSteps(&grid, 101, 102);
      const std::vector<Tensors> before = ParamsOf(&grid);
      Tensors exported;
      OnEveryRank(grid.world(), [&](int rank) { rank == odd ? grid[rank].Export(1, &exported) : grid[rank].Step(); });
      CheckFailed(&grid, SHAMPOO_E_STATE, {"exports averages", "makes a step", "in the same order on all ranks"});
      CHECK(SameBits(ParamsOf(&grid), before));
      for (const std::vector<float>& one : exported) CHECK(one == std::vector<float>(one.size(), -1));
      Export(&grid, 1);
      RequireOk(grid);
      RunSteps(&grid, 103, 103);
    }
  }
}

TEST_CASE("replicas export equal averages even if only some replicas read one arena and write another") {
  for (const Kind kind : {Kind{2, 1}, Kind{2, 2, "gather"}, Kind{2, 2}}) {
    CAPTURE(kind);
    Grid grid(AveragingSpec(), kind);
    RequireStart(&grid);
    std::vector<std::vector<char>> memory;
    for (int rank = kind.shards; rank < grid.world(); ++rank) {
      void* addresses[2] = {};
      for (void*& address : addresses) {
        std::vector<char>& arena = memory.emplace_back(size_t{1} << 16);  // more than the state needs
        address = arena.data() + (256 - reinterpret_cast<uintptr_t>(arena.data()) % 256);
      }
      REQUIRE(shampoo_optimizer_bind_state(grid[rank].optimizer, addresses[0], addresses[1]) == SHAMPOO_OK);
    }
    RequireStep(&grid);
    const Exported exported = Export(&grid, 1);
    RequireOk(grid);
    for (int shard = 0; shard < kind.shards; ++shard) {
      CHECK(SameBits(exported[static_cast<size_t>(shard)], exported[static_cast<size_t>(kind.shards + shard)]));
    }
  }
}

TEST_CASE("if any collective of an export fails on all ranks, the export and the next step fail on all ranks") {
  for (const Kind kind : kExportingKinds) {
    if (kind.replicas > 1 && kind.shards > 1) continue;  // Grid::comm() requires that steps use a single communicator
    for (int64_t k = 1; k <= 3; ++k) {
      CAPTURE_ALL(kind, k);
      Grid grid(AveragingSpec(), kind);
      RequireStart(&grid);
      RunSteps(&grid, 101, 102);
      const int64_t calls = grid.comm().calls(0);
      grid.comm().before = [&](int, int64_t call) { return call == calls + k ? 7 : 0; };
      Export(&grid, 1);
      if (grid.comm().calls(0) < calls + k) continue;  // the export has fewer than k collectives
      CHECK_MESSAGE(grid.All(SHAMPOO_E_COMM), grid.Errors());
      grid.Step();
      CHECK_MESSAGE(grid.All(SHAMPOO_E_COMM), grid.Errors());
      CHECK(grid.timeouts() == 0);
    }
  }
}

}  // namespace
}  // namespace shampoo_test
