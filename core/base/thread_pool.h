// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace shampoo {

// The worker threads of the process: made with the first optimizer that needs them, joined with the last.
//
// Why our own: an embedded library may not bring an OpenMP runtime (static TLS, fork, several runtimes in one process),
// and a host must be able to put its own threads in its place.
class ThreadPool {
 public:
  using Task = void (*)(void* argument, int64_t slot);

  // The pool of this process, grown to at least `workers` threads. A child of fork gets a new one, and leaves that of
  // its parent alone when it lets go of it.
  static std::shared_ptr<ThreadPool> Acquire(int workers);

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls task(argument, slot) once for every slot in [0, slots), on the caller and on whatever workers are free, and
  // returns when all are done. Several threads may run at once; the caller alone makes progress if no worker is free.
  // A task must not throw.
  void Run(Task task, void* argument, int64_t slots);

 private:
  ThreadPool() = default;
  ~ThreadPool();
  // What the last user does. owner: the process that made the pool.
  static void Release(ThreadPool* pool, pid_t owner);

  struct Job {
    Task task;
    void* argument;
    int64_t slots;
    int64_t next = 0;     // first slot that nobody has taken
    int64_t running = 0;  // slots taken by workers and not finished
    std::condition_variable finished;
    Job* following = nullptr;  // an intrusive list: a step allocates nothing
  };

  void Grow(int workers);
  void Remove(Job* job);
  void WorkerLoop();

  std::mutex mutex_;
  std::condition_variable work_;
  Job* jobs_ = nullptr;
  bool stopping_ = false;
  std::vector<std::thread> workers_;

  // Pools of other processes, so that leak checkers find them.
  static std::atomic<ThreadPool*> abandoned;
  ThreadPool* next_abandoned_ = nullptr;
};

}  // namespace shampoo
