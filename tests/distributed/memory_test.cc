// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests that a rank allocates only the state of its own blocks and the workspace that the plan predicts.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "tests/capture.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

// Counts the allocations that a rank makes with its shampoo_allocator.
struct Counter {
  int64_t bytes = 0;
  int64_t calls = 0;
  std::vector<int64_t> sizes;

  shampoo_allocator Allocator() {
    shampoo_allocator allocator = SHAMPOO_ALLOCATOR_INIT;
    allocator.user = this;
    allocator.allocate = [](void* user, size_t size, size_t align, int32_t, int32_t, void*) {
      auto* const counter = static_cast<Counter*>(user);
      counter->bytes += static_cast<int64_t>(size);
      counter->sizes.push_back(static_cast<int64_t>(size));
      ++counter->calls;
      return std::aligned_alloc(align, (size + align - 1) / align * align);
    };
    allocator.deallocate = [](void* user, void* memory, size_t size, int32_t, int32_t, void*) {
      static_cast<Counter*>(user)->bytes -= static_cast<int64_t>(size);
      std::free(memory);
    };
    return allocator;
  }
};

// A Grid in which each rank has its own Counter.
struct CountedGrid {
  CountedGrid(const RankSpec& spec, const Kind& kind) : counters(static_cast<size_t>(kind.world())), grid(spec, kind) {
    for (Counter& counter : counters) allocators.push_back(counter.Allocator());
    for (int rank = 0; rank < grid.world(); ++rank) grid.spec(rank).allocator = &allocators[static_cast<size_t>(rank)];
    RequireCreate(&grid);
  }
  const Counter& Of(int rank) const { return counters[static_cast<size_t>(rank)]; }

  std::vector<Counter> counters;
  std::vector<shampoo_allocator> allocators;
  Grid grid;
};

// Returns the bytes of scratch memory that are needed to compute the inverse roots of a block of extent x extent. The
// total of the plan includes this memory, but the library does not allocate it with the shampoo_allocator.
int64_t SolverScratch(int64_t extent) {
  CountedGrid one({.keys = "use_merge_dims=false", .params = {{"matrix", {extent, extent}}}}, {1, 1});
  return one.grid[0].PlanBytes("total", 0) - one.Of(0).bytes;
}

// Returns the length of the longest dim in the blocks that a rank owns, or 0 if the rank owns none. `replica` and
// `shard` are the replica_rank and the shard_rank of `rank`.
int64_t LargestDim(const Rank& rank, int replica, int shard) {
  int64_t largest = 0;
  for (const shampoo_block_info& block : BlocksOf(rank)) {
    if (block.owner != replica || block.shard_owner != shard) continue;
    largest = std::max(largest, *std::max_element(block.shape, block.shape + block.ndim));
  }
  return largest;
}

RankSpec Mixed(const Keys& more) {
  return {.keys = "max_preconditioner_dim=16 grafting=adam momentum=0.9" + more,
          .groups = {"grafting=sgd factor_dtype=bf16"},
          .params = {{"matrix", {40, 30}}, {"vector", {17}, 1}, {"tensor", {3, 5, 4}}, {"scalar", {}, 1}}};
}

// A small model with the proportions of a transformer: 8 matrices of 128 x 128 and 4 matrices of 512 x 128. All blocks
// are 128 x 128.
RankSpec Transformer() {
  RankSpec spec = {.keys = "max_preconditioner_dim=128 grafting=adam use_merge_dims=false"};
  for (int i = 0; i < 8; ++i) spec.params.push_back({"attention." + std::to_string(i), {128, 128}});
  for (int i = 0; i < 4; ++i) spec.params.push_back({"mlp." + std::to_string(i), {512, 128}});
  return spec;
}

TEST_CASE("every rank allocates the predicted bytes in create, allocates nothing in steps, and frees all memory") {
  for (const Kind kind :
       {Kind{1, 1}, Kind{2, 1}, Kind{4, 1}, Kind{20, 1}, Kind{1, 4}, Kind{2, 2}, Kind{1, 2, "gather"},
        Kind{1, 8, "gather"}, Kind{2, 2, "gather"}, Kind{1, 3, "gather", false}, Kind{2, 2, "gather", false}}) {
    for (const Keys& bucket : Combinations("comm_bucket_bytes=0|2000")) {
      CAPTURE_ALL(kind, bucket);
      const std::string suffix = kind.all_to_all ? "" : ".all_gather";
      CountedGrid counted(Mixed(bucket), kind);
      Grid& grid = counted.grid;
      std::vector<int64_t> calls;
      int idle = 0;
      for (int rank = 0; rank < grid.world(); ++rank) {
        const Counter& counter = counted.Of(rank);
        const int replica = rank / kind.shards;
        const int asked = kind.gathers() ? rank : replica;
        const int64_t state = grid[rank].PlanBytes("state", asked);
        const int64_t planned = grid[rank].PlanBytes(("total" + suffix).c_str(), asked);
        CHECK(planned == state + grid[rank].PlanBytes(("workspace" + suffix).c_str(), asked));
        CHECK(std::count(counter.sizes.begin(), counter.sizes.end(), state) == 1);
        const int64_t largest = LargestDim(grid[rank], replica, rank % kind.shards);
        idle += largest == 0 ? 1 : 0;
        CHECK(counter.bytes == planned - (largest == 0 ? 0 : SolverScratch(largest)));
        calls.push_back(counter.calls);
      }
      CHECK((idle > 0) == (kind.replicas == 20));  // the model has fewer than 20 blocks
      grid.FillParams(1);
      RunSteps(&grid, 1, 3);
      for (int rank = 0; rank < grid.world(); ++rank) CHECK(counted.Of(rank).calls == calls[static_cast<size_t>(rank)]);
      grid.Destroy();
      for (const Counter& counter : counted.counters) CHECK(counter.bytes == 0);
    }
  }
}

// Returns the bytes of all entries of a rank's state.
int64_t StoredBytes(const Rank& rank) {
  int64_t bytes = 0;
  for (const StateEntry& entry : EntriesOf(rank)) bytes += entry.stored_bytes;
  return bytes;
}

TEST_CASE("each of 4 ranks holds at most 27 % of the state, and only step counters exist on several ranks") {
  for (const char* const balance : {"bytes", "cost"}) {
    CAPTURE(balance);
    RankSpec spec = Transformer();
    spec.keys.emplace_back("balance", balance);
    const Rank one(spec);
    RequireOk(one);
    const auto whole = static_cast<double>(one.PlanBytes("state", 0));
    CountedGrid counted(spec, {4, 1});
    Grid& grid = counted.grid;
    int64_t stored = 0;
    for (int rank = 0; rank < 4; ++rank) {
      const auto state = static_cast<double>(grid[rank].PlanBytes("state", rank));
      CHECK(state <= 0.27 * whole);
      // The prediction of the plan could be wrong: also check the sizes of the entries and of the allocation.
      stored += StoredBytes(grid[rank]);
      CHECK(static_cast<double>(StoredBytes(grid[rank])) <= 0.27 * whole);
      CHECK(std::count(counted.Of(rank).sizes.begin(), counted.Of(rank).sizes.end(),
                       grid[rank].PlanBytes("state", rank)) == 1);
    }
    constexpr int64_t kCounterBytes = sizeof(int64_t);  // each rank has its own step counter
    CHECK(stored == StoredBytes(one) + 3 * kCounterBytes);
  }
}

TEST_CASE("with shard_mode=gather and all-to-all, buffers and sent bytes are as predicted, and decrease as 1 / ranks") {
  constexpr int64_t kTravels = 12;  // bytes sent for each element: gradient, parameter and update
  constexpr int64_t kKept = 3 * 8;  // bytes of buffers for each element: 8 to send, 8 to receive, 8 for gathered blocks
  constexpr int64_t kHeader = 16;   // bytes of a message header; in an exchange, a rank sends a message to every rank
  constexpr int64_t kAlignment = 64;  // bytes to which each buffer is aligned
  const int64_t elements = 8 * 128 * 128 + 4 * 512 * 128;
  const RankSpec spec = Transformer();
  CountedGrid one(spec, {1, 1, "gather"});
  const int64_t step_memory = one.Of(0).bytes - one.grid[0].PlanBytes("state", 0);
  for (const int ranks : {2, 4, 8}) {
    CAPTURE(ranks);
    CountedGrid counted(spec, {1, ranks, "gather"});
    Grid& grid = counted.grid;
    grid.FillParams(1);
    grid.FillGradients(2);
    grid.comm().ResetCounts();
    RequireStep(&grid);
    for (int rank = 0; rank < ranks; ++rank) {
      const int64_t sent = grid.comm().bytes_sent(rank) - 64;  // without the 64 bytes of the exchange of statuses
      CHECK(sent == grid[rank].PlanBytes("comm", rank));
      CHECK(sent <= kTravels * elements / ranks + 2 * kHeader * ranks);
      // All blocks have the same shape, so each rank needs as much workspace as a single rank, plus exchange buffers.
      const int64_t buffers = counted.Of(rank).bytes - grid[rank].PlanBytes("state", rank) - step_memory;
      CHECK(buffers == grid[rank].PlanBytes("workspace", rank) - one.grid[0].PlanBytes("workspace", 0));
      CHECK(buffers >= kKept * elements / ranks);
      CHECK(buffers <= kKept * elements / ranks + 2 * kHeader * ranks + 3 * kAlignment);
    }
  }
}

TEST_CASE("ranks without a block take part in all steps") {
  const RankSpec spec = {.keys = "grafting=adam", .params = {{"matrix", {6, 5}}, {"vector", {4}}}};
  Rank one(spec);
  RequireOk(one);
  Grid grid(spec, 6, 1);
  RequireStart(&grid);
  one.w = grid[0].w;
  for (uint64_t t = 1; t <= 5; ++t) {
    grid.FillGradients(100 + t);
    one.g = grid[0].g;
    one.Step();
    RequireStep(&grid);
  }
  CHECK(grid.AllHold(one.w));
  int idle = 0;
  for (int rank = 0; rank < 6; ++rank) {
    idle += EntriesOf(grid[rank]).size() == 1 ? 1 : 0;  // a rank without a block has only a step counter
    CHECK(StepsOf(grid[rank], 0) == 5);
  }
  CHECK(idle == 4);
}

}  // namespace
}  // namespace shampoo_test
