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
  // All items are begun, or about to be by threads that have arrived: nothing waits for a slot that a host has yet to
  // run.
  std::unique_lock<std::mutex> lock(mutex_);
  while (unfinished_ > 0) {
    if (!Help(worker, false, &lock)) changed_.wait(lock);
  }
}

bool Team::Help(Worker* worker, bool leaf_only, std::unique_lock<std::mutex>* lock) {
  for (Job* job = jobs_; job != nullptr; job = job->following) {
    if (job->next == job->count || worker->slot_ >= job->slots || (leaf_only && !job->leaf)) continue;
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
  job->following = jobs_;
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
  while (*link != job) link = &(*link)->following;
  *link = job->following;
}

void Team::Worker::RunInSlots(int64_t count, int slots, SlotTile tile, void* argument) {
  if (count == 1) return tile(argument, *this, 0);
  Job job{tile, argument, count, slots, false};
  team_->Divide(this, &job);
}

void Team::Worker::Run(int64_t count, Tile tile, void* argument) {
  if (count == 1) return tile(argument, 0);
  struct Call {
    Tile tile;
    void* argument;
  } call{tile, argument};
  const auto run = [](void* own, Worker&, int64_t i) {
    const auto* const wanted = static_cast<Call*>(own);
    wanted->tile(wanted->argument, i);
  };
  Job job{run, &call, count, INT32_MAX, true};
  team_->Divide(this, &job);
}

}  // namespace shampoo
