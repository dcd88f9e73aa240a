// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/base/team.h"

namespace shampoo {

void Team::Work(Worker* worker) {
  if (worker->slot_ < item_slots_) {
    int64_t done = 0;
    for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count_; ++done) item_(argument_, *worker, i);
    const std::lock_guard<std::mutex> lock(mutex_);
    unfinished_ -= done;
    if (unfinished_ == 0) changed_.notify_all();
  }
  // The executor may make the calls of Work() one after another, so a call must not wait for a call that has not begun.
  // The loop below waits only for items, and every item is run by this call or by another call that has begun.
  std::unique_lock<std::mutex> lock(mutex_);
  while (unfinished_ > 0) {
    if (!Help(worker, false, &lock)) changed_.wait(lock);
  }
}

bool Team::Help(Worker* worker, bool slot_is_busy, std::unique_lock<std::mutex>* lock) {
  for (Job* job = jobs_; job != nullptr; job = job->next_job) {
    if (job->next == job->count || worker->slot_ >= job->slots || (slot_is_busy && job->uses_slot)) continue;
    const int64_t i = job->next++;
    ++job->running;
    lock->unlock();
    job->tile(job->argument, *worker, i);
    lock->lock();
    if (--job->running == 0 && job->next == job->count) changed_.notify_all();
    return true;
  }
  return false;
}

void Team::Divide(Worker* worker, Job* job) {
  std::unique_lock<std::mutex> lock(mutex_);
  job->next_job = jobs_;
  jobs_ = job;
  changed_.notify_all();
  while (job->next < job->count) {
    const int64_t i = job->next++;
    lock.unlock();
    job->tile(job->argument, *worker, i);
    lock.lock();
  }
  while (job->running > 0) {
    if (!Help(worker, true, &lock)) changed_.wait(lock);
  }
  Job** link = &jobs_;
  while (*link != job) link = &(*link)->next_job;
  *link = job->next_job;
}

void Team::Worker::RunInSlots(int64_t count, int slots, SlotTile tile, void* argument) {
  if (count == 1) return tile(argument, *this, 0);
  Job job{tile, argument, count, slots, true};
  team_->Divide(this, &job);
}

void Team::Worker::Run(int64_t count, Tile tile, void* argument) {
  if (count == 1) return tile(argument, 0);
  struct Call {
    Tile tile;
    void* argument;
  } call{tile, argument};
  const auto run = [](void* own, Worker&, int64_t i) {
    const auto* const forwarded = static_cast<Call*>(own);
    forwarded->tile(forwarded->argument, i);
  };
  Job job{run, &call, count, INT32_MAX, false};
  team_->Divide(this, &job);
}

}  // namespace shampoo
