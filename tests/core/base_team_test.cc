// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <vector>

#include "core/base/team.h"

namespace shampoo {
namespace {

// Tests of class Team. The threads of a team process items. Each thread has its own slot, which is the number of a
// workspace. A thread takes whole items as long as any are left. Then the thread runs tiles, which are parts of items
// that other threads have taken.

// Returns an executor such as a program may pass to the library. The executor runs its tasks, one for each slot, one
// after another on the calling thread, from the last to the first.
HostExecutor SerialExecutor(int threads) {
  const auto run = [](void*, void (*task)(void*, int64_t), void* argument, int64_t count) {
    for (int64_t i = count; i-- > 0;) task(argument, i);
  };
  return {nullptr, threads, run};
}

struct Record {
  std::vector<std::atomic<int>> tiles;
  std::array<std::atomic<int>, 64> in_slot{};  // for each slot, how many tiles of RunInSlots are running in it
  std::atomic<bool> shared_slot{false};
  std::atomic<int> entered{0};
  int64_t items = 0;
  explicit Record(int64_t count) : tiles(static_cast<size_t>(count * kTiles)), items(count) {}
  static constexpr int64_t kTiles = 7;
};

// Divides an item into two tiles, and divides the first of these tiles again, into kTiles - 1 tiles.
void WorkOn(void* argument, Team::Worker& worker, int64_t item) {
  auto* const record = static_cast<Record*>(argument);
  struct Item {
    Record* record;
    int64_t number;
  } this_item{record, item};
  const auto run_tile = [](void* item_argument, Team::Worker& helper, int64_t i) {
    const auto* const mine = static_cast<Item*>(item_argument);
    std::atomic<int>& here = mine->record->in_slot[static_cast<size_t>(helper.slot())];
    if (here.fetch_add(1) != 0) mine->record->shared_slot = true;
    if (i == 0) {
      helper.ForEach(Record::kTiles - 1, [&](int64_t tile) {
        ++mine->record->tiles[static_cast<size_t>(mine->number * Record::kTiles + tile)];
      });
    } else {
      ++mine->record->tiles[static_cast<size_t>(mine->number * Record::kTiles + Record::kTiles - 1)];
    }
    here.fetch_sub(1);
  };
  worker.RunInSlots(2, 64, run_tile, &this_item);
}

void CheckOnce(const HostExecutor& host, int threads, int64_t items) {
  CAPTURE(threads);
  CAPTURE(items);
  std::unique_ptr<Executor> executor;
  REQUIRE(Executor::Create(threads, host, &executor).ok());
  Record record(items);
  const int item_slots = static_cast<int>(std::min<int64_t>(items, threads));
  Team::Run(executor.get(), items, item_slots, threads, WorkOn, &record, [&](int slot) {
    CHECK(slot < threads);
    ++record.entered;
    return 0;
  });
  CHECK(std::ranges::all_of(record.tiles, [](const std::atomic<int>& count) { return count == 1; }));
  CHECK_FALSE(record.shared_slot);
  CHECK(record.entered == threads);
}

TEST_CASE("every tile of every item runs once, and at most one tile of RunInSlots runs in a slot at a time") {
  for (const int threads : {1, 2, 5, 16}) {
    for (const int64_t items : {1, 2, 3, 40}) {
      for (int round = 0; round < 30; ++round) CheckOnce(HostExecutor{}, threads, items);
    }
  }
}

TEST_CASE("the caller's executor may run the tasks of a team one after another") {
  for (const int64_t items : {1, 2, 3, 40}) CheckOnce(SerialExecutor(4), 4, items);
}

TEST_CASE("if there is only one item, an idle thread runs tiles of it") {
  std::unique_ptr<Executor> executor;
  REQUIRE(Executor::Create(2, HostExecutor{}, &executor).ok());
  std::atomic<int> meeting{0};
  // Each of the two tiles waits until both have begun, so a single thread would never return.
  const auto item = [](void* argument, Team::Worker& worker, int64_t) {
    auto* const both = static_cast<std::atomic<int>*>(argument);
    worker.ForEach(2, [both](int64_t) {
      ++*both;
      while (*both < 2) std::this_thread::yield();
    });
  };
  Team::Run(executor.get(), 1, 1, 2, item, &meeting, [](int) { return 0; });
  CHECK(meeting == 2);
}

}  // namespace
}  // namespace shampoo
