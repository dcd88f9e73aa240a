// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/base/thread_pool.h"

#include <signal.h>
#include <unistd.h>

namespace shampoo {
namespace {
std::mutex process_pool_mutex;
std::weak_ptr<ThreadPool> process_pool;
pid_t process_pool_pid = 0;
}  // namespace

std::atomic<ThreadPool*> ThreadPool::abandoned = nullptr;

// After fork(), the threads of a pool exist only in the process that created the pool. A child process cannot destroy
// the pool: the child has no threads to join, a mutex may be locked forever, and the destructor of a condition variable
// waits for threads that do not exist in the child.
void ThreadPool::Release(ThreadPool* pool, pid_t owner) {
  if (getpid() == owner) {
    delete pool;
    return;
  }
  pool->next_abandoned_ = abandoned.load();
  while (!abandoned.compare_exchange_weak(pool->next_abandoned_, pool)) {
  }
}

std::shared_ptr<ThreadPool> ThreadPool::Acquire(int workers) {
  std::lock_guard<std::mutex> lock(process_pool_mutex);
  std::shared_ptr<ThreadPool> pool;
  if (process_pool_pid == getpid()) pool = process_pool.lock();
  if (pool == nullptr) {
    const pid_t owner = getpid();
    pool.reset(new ThreadPool, [owner](ThreadPool* released) { Release(released, owner); });
    process_pool = pool;
    process_pool_pid = owner;
  }
  pool->Grow(workers);
  return pool;
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Grow(int workers) {
  if (static_cast<int>(workers_.size()) >= workers) return;
  // Block all signals in the calling thread while it creates the new threads, which inherit this signal mask. Signal
  // handlers of the application must run on threads of the application.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    while (static_cast<int>(workers_.size()) < workers) workers_.emplace_back([this] { WorkerLoop(); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void ThreadPool::Run(Task task, void* argument, int64_t slots) {
  if (slots <= 1) {
    if (slots == 1) task(argument, 0);
    return;
  }
  Job job{task, argument, slots, 0, 0, {}, nullptr};
  std::unique_lock<std::mutex> lock(mutex_);
  job.next_job = jobs_;
  jobs_ = &job;
  for (int64_t i = 1; i < slots; ++i) work_.notify_one();
  while (job.next < job.slots) {
    const int64_t slot = job.next++;
    lock.unlock();
    task(argument, slot);
    lock.lock();
  }
  Remove(&job);
  job.finished.wait(lock, [&job] { return job.running == 0; });
}

void ThreadPool::Remove(Job* job) {
  Job** link = &jobs_;
  while (*link != job) link = &(*link)->next_job;
  *link = job->next_job;
}

void ThreadPool::WorkerLoop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    Job* job = jobs_;
    while (job != nullptr && job->next == job->slots) job = job->next_job;
    if (job == nullptr) {
      if (stopping_) return;
      work_.wait(lock);
      continue;
    }
    const int64_t slot = job->next++;
    ++job->running;
    lock.unlock();
    job->task(job->argument, slot);
    lock.lock();
    if (--job->running == 0) job->finished.notify_one();
  }
}

}  // namespace shampoo
