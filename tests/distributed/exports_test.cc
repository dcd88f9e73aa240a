// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Exports of averages on several ranks.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

// The exported averages of all ranks.
using Exported = std::vector<Tensors>;

RankSpec AveragingSpec(const Keys& more = {}) {
  RankSpec spec;
  spec.keys = Keys{{"method", "adam"}, {"lr", "0.1"}, {"averaging", "schedule_free"}} + more;
  spec.groups = {{{"method", "adam"}, {"lr", "0.1"}, {"weight_ema", "0.5"}}, {{"method", "adam"}, {"lr", "0.1"}}};
  spec.params = {{"matrix", {9, 7}}, {"vector", {12}, 1}, {"tensor", {3, 4, 2}}, {"plain", {5}, 2}};
  return spec;
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
    for (const char* const bucket : {"0", "600"}) {
      CAPTURE(kind);
      CAPTURE(bucket);
      const Keys keys = {{"shard_mode", kind.shard_mode}, {"comm_bucket_bytes", bucket}};
      Grid grid(AveragingSpec(keys), kind);
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
      for (int rank = 0; rank < grid.world(); ++rank) {
        CHECK(SameBits(grid[rank].w, PartOf(grid.spec(rank).params, one[0].w)));
      }
    }
  }
}

TEST_CASE("an export succeeds after a step that failed because one rank had no gradient") {
  for (const Kind kind : {Kind{1, 2, "gather"}, Kind{2, 2, "gather"}, Kind{2, 2}}) {
    CAPTURE(kind);
    Grid grid(AveragingSpec({{"shard_mode", kind.shard_mode}}), kind);
    RequireStart(&grid);
    RunSteps(&grid, 101, 102);
    const Exported before = Export(&grid, 1);
    RequireOk(grid);
    grid[1].has_grad[0] = false;
    grid.Step();
    CHECK(grid[0].status != SHAMPOO_OK);
    const Exported after = Export(&grid, 1);
    RequireOk(grid);
    if (kind.replicas > 1) continue;  // replicas that did not see the error have updated their states
    for (int rank = 0; rank < grid.world(); ++rank) {
      CHECK(SameBits(after[static_cast<size_t>(rank)], before[static_cast<size_t>(rank)]));
    }
  }
}

// Returns a float32 state of this rank, or nothing if another rank owns it.
std::vector<float> StateOf(const Rank& rank, const std::string& key) {
  int64_t count = 0;
  REQUIRE(shampoo_state_count(rank.optimizer, &count) == SHAMPOO_OK);
  for (int64_t i = 0; i < count; ++i) {
    shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
    REQUIRE(shampoo_state_describe(rank.optimizer, i, &entry) == SHAMPOO_OK);
    if (key != entry.key) continue;
    size_t elements = 1;
    for (int k = 0; k < entry.ndim; ++k) elements *= static_cast<size_t>(entry.shape[k]);
    std::vector<float> values(elements);
    REQUIRE(shampoo_state_read(rank.optimizer, i, 0, static_cast<int64_t>(elements), values.data(),
                               elements * sizeof(float), SHAMPOO_CPU, nullptr) == SHAMPOO_OK);
    return values;
  }
  return {};
}

TEST_CASE("averages are computed from the parameters that all ranks have, also with a narrow communication dtype") {
  for (const char* const communicate : {"updates", "params"}) {
    CAPTURE(communicate);
    RankSpec spec;
    spec.keys = {{"method", "adam"},
                 {"lr", "0.1"},
                 {"weight_ema", "0.5"},
                 {"communicate", communicate},
                 {"communication_dtype", "bf16"}};
    spec.params = {{"matrix", {9, 7}}, {"vector", {12}}};
    Grid grid(spec, 2, 1);
    RequireStart(&grid);
    RunSteps(&grid, 101, 101);
    Tensors average = grid[0].w;  // starts after the first step
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
    for (const char* const bucket : {"0", "600"}) {
      for (int odd = 0; odd < kind.replicas * kind.shards; ++odd) {
        CAPTURE(kind);
        CAPTURE(odd);
        Grid grid(AveragingSpec({{"shard_mode", kind.shard_mode}, {"comm_bucket_bytes", bucket}}), kind);
        RequireStart(&grid);
        RunSteps(&grid, 101, 102);
        const std::vector<Tensors> before = ParamsOf(&grid);
        Exported exported(static_cast<size_t>(grid.world()));
        OnEveryRank(grid.world(),
                    [&](int rank) { grid[rank].Export(rank == odd ? 2 : 1, &exported[static_cast<size_t>(rank)]); });
        CheckFailed(&grid, SHAMPOO_E_INVALID, {"blend is 2"});
        CHECK(grid.Errors().find("had begun the step") == std::string::npos);
        CHECK(SameBits(ParamsOf(&grid), before));
        Export(&grid, 1);
        RequireOk(grid);
        RunSteps(&grid, 103, 104);
      }
    }
  }
}

TEST_CASE("a rank that exports while the others make a step is an error on all ranks") {
  for (const Kind kind : kExportingKinds) {
    for (int odd = 0; odd < kind.replicas * kind.shards; ++odd) {
      CAPTURE(kind);
      CAPTURE(odd);
      Grid grid(AveragingSpec({{"shard_mode", kind.shard_mode}}), kind);
      RequireStart(&grid);
      for (int rank = 0; rank < grid.world(); ++rank) grid[rank].has_grad[0] = false;  // the parameter is frozen
      RunSteps(&grid, 101, 102);
      const std::vector<Tensors> before = ParamsOf(&grid);
      Tensors exported;
      OnEveryRank(grid.world(), [&](int rank) {
        if (rank == odd) {
          grid[rank].Export(1, &exported);
        } else {
          grid[rank].Step();
        }
      });
      CheckFailed(&grid, SHAMPOO_E_STATE, {"exports averages", "makes a step", "in the same order on all ranks"});
      CHECK(SameBits(ParamsOf(&grid), before));
      for (const std::vector<float>& one : exported) CHECK(one == std::vector<float>(one.size(), -1));
      Export(&grid, 1);
      RequireOk(grid);
      RunSteps(&grid, 103, 103);
    }
  }
}

TEST_CASE("replicas export the averages that their last steps wrote, in place or to another arena") {
  for (const Kind kind : {Kind{2, 1}, Kind{2, 2, "gather"}, Kind{2, 2}}) {
    CAPTURE(kind);
    Grid grid(AveragingSpec({{"shard_mode", kind.shard_mode}}), kind);
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
    grid.Step();
    RequireOk(grid);
    const Exported exported = Export(&grid, 1);
    RequireOk(grid);
    for (int shard = 0; shard < kind.shards; ++shard) {
      CHECK(SameBits(exported[static_cast<size_t>(shard)], exported[static_cast<size_t>(kind.shards + shard)]));
    }
  }
}

TEST_CASE("any collective that fails in an export fails all ranks in this and in all later calls") {
  for (const Kind kind : kExportingKinds) {
    if (kind.replicas > 1 && kind.shards > 1) continue;  // Grid::comm() needs one replica or one shard
    for (int64_t k = 1; k <= 3; ++k) {
      CAPTURE(kind);
      CAPTURE(k);
      Grid grid(AveragingSpec({{"shard_mode", kind.shard_mode}}), kind);
      RequireStart(&grid);
      RunSteps(&grid, 101, 102);
      const int64_t calls = grid.comm().calls(0);
      grid.comm().before = [&](int, int64_t call) { return call == calls + k ? 7 : 0; };
      Export(&grid, 1);
      if (grid.comm().calls(0) < calls + k) continue;  // the export has fewer collectives
      CHECK_MESSAGE(grid.All(SHAMPOO_E_COMM), grid.Errors());
      grid.Step();
      CHECK_MESSAGE(grid.All(SHAMPOO_E_COMM), grid.Errors());
      CHECK(grid.timeouts() == 0);
    }
  }
}

}  // namespace
}  // namespace shampoo_test
