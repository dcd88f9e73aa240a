// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// One rank creates its optimizer with different arguments. Every rank returns the same error, which names the rank and
// the difference.
#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>

#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

RankSpec ThreeParamsSpec() {
  RankSpec spec;
  spec.keys = {{"max_preconditioner_dim", "4"}, {"grafting", "adam"}};
  spec.groups = {{{"lr", "0.1"}}};
  spec.params = {{"first", {9, 7}}, {"second", {5, 4}}, {"third", {12}, 1}};
  return spec;
}

const shampoo_allocator kNoMemory = [] {
  shampoo_allocator allocator = SHAMPOO_ALLOCATOR_INIT;
  allocator.allocate = [](void*, size_t, size_t, int32_t, int32_t, void*) -> void* { return nullptr; };
  allocator.deallocate = [](void*, void*, size_t, int32_t, int32_t, void*) {};
  return allocator;
}();

struct Difference {
  const char* name;
  void (*make)(RankSpec* spec);
  shampoo_status status;
  std::vector<std::string> words;
};

const std::vector<Difference>& Differences() {
  static const auto set_key = [](RankSpec* spec, const char* key, const char* value) {
    spec->keys.emplace_back(key, value);
  };
  static const std::vector<Difference> all = {
      {"shape",
       [](RankSpec* spec) { spec->params[1].shape[1] = 5; },
       SHAMPOO_E_INVALID,
       {"second", "(5, 5)", "(5, 4)"}},
      {"order",
       [](RankSpec* spec) { std::swap(spec->params[0], spec->params[1]); },
       SHAMPOO_E_INVALID,
       {"parameter 0", "first", "second"}},
      {"name", [](RankSpec* spec) { spec->params[2].name = "other"; }, SHAMPOO_E_INVALID, {"third", "other"}},
      {"one more",
       [](RankSpec* spec) {
         spec->params.push_back({"fourth", {3}});
       },
       SHAMPOO_E_INVALID,
       {"3 parameters", "4 parameters"}},
      {"one less",
       [](RankSpec* spec) { spec->params.pop_back(); },
       SHAMPOO_E_INVALID,
       {"3 parameters", "2 parameters"}},
      {"group", [](RankSpec* spec) { spec->params[1].group = 1; }, SHAMPOO_E_INVALID, {"second", "group 0", "group 1"}},
      {"one more group",
       [](RankSpec* spec) { spec->groups.push_back({}); },
       SHAMPOO_E_INVALID,
       {"2 groups", "3 groups"}},
      {"lr", [](RankSpec* spec) { set_key(spec, "lr", "0.25"); }, SHAMPOO_E_INVALID, {"group 0: lr", "0.25", "0.01"}},
      {"lr of a group",
       [](RankSpec* spec) { spec->groups[0][0].second = "0.5"; },
       SHAMPOO_E_INVALID,
       {"group 1: lr", "0.5", "0.1"}},
      {"beta2", [](RankSpec* spec) { set_key(spec, "beta2", "0.75"); }, SHAMPOO_E_INVALID, {"beta2", "0.75", "1"}},
      {"dtype",
       [](RankSpec* spec) { set_key(spec, "factor_dtype", "bf16"); },
       SHAMPOO_E_INVALID,
       {"factor_dtype", "bf16", "auto"}},
      {"grafting",
       [](RankSpec* spec) { set_key(spec, "grafting", "sgd"); },
       SHAMPOO_E_INVALID,
       {"grafting", "sgd", "adam"}},
      {"bucket",
       [](RankSpec* spec) { set_key(spec, "comm_bucket_bytes", "600"); },
       SHAMPOO_E_INVALID,
       {"comm_bucket_bytes", "600"}},
      {"world",
       [](RankSpec* spec) { ++(spec->replica_ops != nullptr ? spec->replica_world : spec->shard_world); },
       SHAMPOO_E_INVALID,
       {"_comm is rank", "_world"}},
      {"memory", [](RankSpec* spec) { spec->allocator = &kNoMemory; }, SHAMPOO_E_NOMEM, {"bytes"}},
  };
  return all;
}

TEST_CASE("create fails on every rank with the same message if one rank has different arguments") {
  for (const Kind kind : kReplicasOrShards) {
    const int world = kind.replicas * kind.shards;
    for (int odd = 0; odd < world; ++odd) {
      for (const Difference& difference : Differences()) {
        CAPTURE(kind);
        CAPTURE(odd);
        CAPTURE(difference.name);
        Grid grid(ThreeParamsSpec(), kind);
        grid.SetPatience(std::chrono::seconds(5));
        difference.make(&grid.spec(odd));
        grid.Create();
        CheckFailed(&grid, difference.status, difference.words);
        const std::string who = (kind.replicas > 1 ? "rank " : "shard rank ") + std::to_string(odd);
        CHECK_MESSAGE(Has(grid[0].error, who), grid[0].error);
        for (int rank = 0; rank < world; ++rank) CHECK(grid[rank].optimizer == nullptr);
        grid.Destroy();
        CHECK(grid.comm().released() == world);
      }
    }
  }
}

TEST_CASE("a communicator can be used again after a create that failed on one rank") {
  for (const char* const shard_mode : {"local", "gather"}) {
    RankSpec spec = ThreeParamsSpec();
    spec.keys.emplace_back("shard_mode", shard_mode);
    Grid grid(spec, 1, 2);
    ThreadComm& ranks = grid.comm();
    ranks.patience = std::chrono::seconds(5);
    shampoo_comm* comms[2] = {};
    OnEveryRank(2, [&](int rank) {
      const shampoo_comm_ops ops = ranks.OpsOf(rank);
      CHECK(shampoo_comm_from_ops(&comms[rank], &ops) == SHAMPOO_OK);
    });
    std::vector<std::unique_ptr<Rank>> made(2);
    for (const bool fails : {true, false}) {
      OnEveryRank(2, [&](int rank) {
        RankSpec own = grid.spec(rank);
        own.shard_ops = nullptr;
        own.shard_comm = comms[rank];
        if (fails && rank == 1) own.allocator = &kNoMemory;
        made[static_cast<size_t>(rank)] = std::make_unique<Rank>(own);
      });
      for (const auto& rank : made) CHECK((rank->status == SHAMPOO_OK) == !fails);
    }
    OnEveryRank(2, [&](int rank) { made[static_cast<size_t>(rank)]->Step(); });
    for (const auto& rank : made) CHECK_MESSAGE(rank->status == SHAMPOO_OK, rank->error);
    made.clear();
    for (shampoo_comm* const comm : comms) shampoo_comm_destroy(comm);
  }
}

}  // namespace
}  // namespace shampoo_test
