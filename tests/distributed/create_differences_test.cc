// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests in which the arguments of create on one rank differ from those on the other ranks. Every rank must return the
// same error, which names the rank and the difference.
#include <doctest/doctest.h>

#include <functional>
#include <memory>

#include "tests/capture.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

const RankSpec kThreeParams = {.keys = "max_preconditioner_dim=4 grafting=adam",
                               .groups = {"lr=0.1"},
                               .params = {{"first", {9, 7}}, {"second", {5, 4}}, {"third", {12}, 1}}};

const shampoo_allocator kNoMemory = [] {
  shampoo_allocator allocator = SHAMPOO_ALLOCATOR_INIT;
  allocator.allocate = [](void*, size_t, size_t, int32_t, int32_t, void*) -> void* { return nullptr; };
  allocator.deallocate = [](void*, void*, size_t, int32_t, int32_t, void*) {};
  return allocator;
}();

struct Difference {
  const char* name;
  std::function<void(RankSpec* spec)> make;
  std::vector<std::string> words;  // the error must contain them
  shampoo_status status = SHAMPOO_E_INVALID;
};

std::function<void(RankSpec* spec)> Set(const Keys& keys) {
  return [keys](RankSpec* spec) { spec->keys = spec->keys + keys; };
}

const Difference kDifferences[] = {
    {"shape", [](RankSpec* spec) { spec->params[1].shape[1] = 5; }, {"second", "(5, 5)", "(5, 4)"}},
    {"order of parameters",
     [](RankSpec* spec) { std::swap(spec->params[0], spec->params[1]); },
     {"parameter 0", "first", "second"}},
    {"name", [](RankSpec* spec) { spec->params[2].name = "other"; }, {"third", "other"}},
    {"one more parameter",
     [](RankSpec* spec) {
       spec->params.push_back({"fourth", {3}});
     },
     {"3 parameters", "4 parameters"}},
    {"one fewer parameter", [](RankSpec* spec) { spec->params.pop_back(); }, {"3 parameters", "2 parameters"}},
    {"group", [](RankSpec* spec) { spec->params[1].group = 1; }, {"second", "group 0", "group 1"}},
    {"one more group", [](RankSpec* spec) { spec->groups.push_back({}); }, {"2 groups", "3 groups"}},
    {"lr", Set("lr=0.25"), {"group 0: lr", "0.25", "0.01"}},
    {"lr of a group", [](RankSpec* spec) { spec->groups = {"lr=0.5"}; }, {"group 1: lr", "0.5", "0.1"}},
    {"beta2", Set("beta2=0.75"), {"beta2", "0.75", "1"}},
    {"dtype", Set("factor_dtype=bf16"), {"factor_dtype", "bf16", "auto"}},
    {"grafting", Set("grafting=sgd"), {"grafting", "sgd", "adam"}},
    {"bucket", Set("comm_bucket_bytes=600"), {"comm_bucket_bytes", "600"}},
    {"number of ranks",
     [](RankSpec* spec) { ++(spec->replica_ops != nullptr ? spec->replica_world : spec->shard_world); },
     {"_comm has rank", "_world"}},
    {"memory", [](RankSpec* spec) { spec->allocator = &kNoMemory; }, {"bytes"}, SHAMPOO_E_NOMEM},
};

TEST_CASE("create fails on every rank with the same message if one rank has different arguments") {
  for (const Kind kind : kReplicasOrShards) {
    const int world = kind.world();
    for (int odd = 0; odd < world; ++odd) {
      for (const Difference& difference : kDifferences) {
        CAPTURE_ALL(kind, odd, difference.name);
        Grid grid(kThreeParams, kind);
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

TEST_CASE("a communicator can be used again after a lack of memory on one rank has made create fail") {
  for (const char* const shard_mode : {"local", "gather"}) {
    Grid grid(kThreeParams, Kind{1, 2, shard_mode});
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
