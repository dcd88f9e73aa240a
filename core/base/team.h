// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "core/base/executor.h"
#include "core/base/tiles.h"

namespace shampoo {

// One parallel operation over items in which idle threads help the busy ones: a thread takes whole items while there
// are any, so that an item stays in its cache; after that it takes tiles of items that others are still at.
class Team {
 public:
  // A thread in its slot. What it divides by Run becomes available to idle threads.
  class Worker : public Tiles {
   public:
    using SlotTile = void (*)(void* argument, Worker& worker, int64_t i);

    int slot() const { return slot_; }
    void Run(int64_t count, Tile tile, void* argument) override;
    // The same for tiles that need what belongs to a slot: only slots below `slots` take them.
    void RunInSlots(int64_t count, int slots, SlotTile tile, void* argument);

   private:
    friend class Team;
    Worker(Team* team, int slot) : team_(team), slot_(slot) {}
    Team* team_;
    int slot_;
  };

  using Item = void (*)(void* argument, Worker& worker, int64_t item);

  // item(argument, worker, i) once for every i in [0, count), started in rising order by slots below item_slots. There
  // are more slots than that, which only help, only where count is at most item_slots. enter(slot) returns what a
  // thread keeps while it is in its slot.
  template <typename Enter>
  static void Run(Executor* executor, int64_t count, int item_slots, int slots, Item item, void* argument,
                  Enter&& enter) {
    Team team(count, item_slots, item, argument);
    executor->ForEachSlot(slots, [&](int) {
      // Numbered as they come, so that those that take items are never behind those that wait for them.
      Worker worker(&team, team.arrived_.fetch_add(1, std::memory_order_relaxed));
      [[maybe_unused]] const auto kept = enter(worker.slot());
      team.Work(&worker);
    });
  }

 private:
  // Some tiles that are not all done.
  struct Job {
    Worker::SlotTile tile;
    void* argument;
    int64_t count;
    int slots;
    bool leaf;            // its tiles use nothing that belongs to a slot
    int64_t next = 0;     // first tile that nobody has taken
    int64_t running = 0;  // taken and not finished, but by the job's owner
    Job* following = nullptr;
  };

  Team(int64_t count, int item_slots, Item item, void* argument)
      : count_(count), item_slots_(item_slots), item_(item), argument_(argument), unfinished_(count) {}
  void Work(Worker* worker);
  void Divide(Worker* worker, Job* job);
  // Takes a tile of somebody's job and runs it, unlocked meanwhile; false: there is none. leaf_only: this slot's memory
  // is in use.
  bool Help(Worker* worker, bool leaf_only, std::unique_lock<std::mutex>* lock);

  const int64_t count_;
  const int item_slots_;
  const Item item_;
  void* const argument_;
  std::atomic<int> arrived_{0};
  std::atomic<int64_t> next_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t unfinished_;   // items
  Job* jobs_ = nullptr;  // the newest first
};

}  // namespace shampoo
