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

// One parallel operation over items, such as blocks or inverse roots, in which idle threads help busy threads. A thread
// takes whole items as long as an item is left, because the data of an item then stay in one thread's cache. When no
// item is left, the thread takes tiles of the items that other threads still work on.
class Team {
 public:
  // A thread of the operation. Slots are numbered in the order in which the threads begin, from 0. The function that
  // processes an item calls Run() to offer tiles of its work to idle threads.
  class Worker : public Tiles {
   public:
    using SlotTile = void (*)(void* argument, Worker& worker, int64_t i);

    int slot() const { return slot_; }
    void Run(int64_t count, Tile tile, void* argument) override;
    // Like Run(), for tiles that use the memory of a slot. A tile uses the slot of the thread that runs the tile
    // (worker.slot()). In addition to the calling thread, only threads in slots below `slots` take tiles.
    void RunInSlots(int64_t count, int slots, SlotTile tile, void* argument);

   private:
    friend class Team;
    Worker(Team* team, int slot) : team_(team), slot_(slot) {}
    Team* team_;
    int slot_;
  };

  using Item = void (*)(void* argument, Worker& worker, int64_t item);

  // Calls item(argument, worker, i) once for every i in [0, count), in at most `slots` slots. Threads in slots below
  // item_slots take the items in ascending order. Threads in the other slots only run tiles. If count is above
  // item_slots, `slots` must not exceed item_slots, so that every thread takes items. Each thread first calls
  // enter(slot), and destroys the returned object when its work is finished.
  template <typename Enter>
  static void Run(Executor* executor, int64_t count, int item_slots, int slots, Item item, void* argument,
                  Enter&& enter) {
    Team team(count, item_slots, item, argument);
    executor->ForEachSlot(slots, [&](int) {
      // The threads that arrive first get the slots below item_slots, so they run the items. Therefore a thread that
      // only helps never waits for a thread that has not arrived.
      Worker worker(&team, team.arrived_.fetch_add(1, std::memory_order_relaxed));
      [[maybe_unused]] const auto kept = enter(worker.slot());
      team.Work(&worker);
    });
  }

 private:
  // The tiles of a call of Worker::Run() or Worker::RunInSlots() that has not returned.
  struct Job {
    Worker::SlotTile tile;
    void* argument;
    int64_t count;
    int slots;            // helping threads in slots from this number on take no tiles
    bool uses_slot;       // whether the tiles were passed to RunInSlots()
    int64_t next = 0;     // the first tile that no thread has taken
    int64_t running = 0;  // tiles that helping threads have taken and not finished
    Job* next_job = nullptr;
  };

  Team(int64_t count, int item_slots, Item item, void* argument)
      : count_(count), item_slots_(item_slots), item_(item), argument_(argument), unfinished_(count) {}
  // Runs items and then helps other threads, until all items are finished.
  void Work(Worker* worker);
  // Offers the tiles of a job to idle threads, and runs the tiles that they do not take. Returns when all tiles of the
  // job are finished; while it waits for them, helps with other jobs.
  void Divide(Worker* worker, Job* job);
  // Runs one tile of any job, and releases the lock while the tile runs. Returns false if there is no tile to run.
  // slot_is_busy: whether the memory of this worker's slot is in use. If true, skips jobs with Job::uses_slot.
  bool Help(Worker* worker, bool slot_is_busy, std::unique_lock<std::mutex>* lock);

  const int64_t count_;
  const int item_slots_;
  const Item item_;
  void* const argument_;
  std::atomic<int> arrived_{0};
  std::atomic<int64_t> next_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t unfinished_;   // number of items that are not finished
  Job* jobs_ = nullptr;  // a list that begins with the newest job
};

}  // namespace shampoo
