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

// The worker threads of the process. They are created with the first optimizer that needs them, and end when the last
// optimizer that uses them is destroyed.
//
// The library does not use OpenMP: in an embedded library, an OpenMP runtime causes problems with static TLS, with
// fork, and with other OpenMP runtimes in the process. An application can also provide its own threads instead of this
// pool (HostExecutor in executor.h).
class ThreadPool {
 public:
  using Task = void (*)(void* argument, int64_t slot);

  // Returns the pool of this process, after increasing its number of threads to at least `workers`. After fork(), the
  // child process gets a new pool. If the child releases its copy of the parent's pool, this copy is not destroyed.
  static std::shared_ptr<ThreadPool> Acquire(int workers);

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls task(argument, slot) once for every slot in [0, slots), on the calling thread and on free workers, and
  // returns when all calls have returned. Several threads may call Run at the same time. If no worker is free, the
  // calling thread makes all calls. A task must not throw.
  void Run(Task task, void* argument, int64_t slots);

 private:
  ThreadPool() = default;
  ~ThreadPool();
  // Called when the last user releases the pool. owner: the process that created the pool.
  static void Release(ThreadPool* pool, pid_t owner);

  struct Job {  // a call of Run()
    Task task;
    void* argument;
    int64_t slots;
    int64_t next = 0;     // the first slot that no thread has taken
    int64_t running = 0;  // calls that workers have begun and not finished
    std::condition_variable finished;
    Job* next_job = nullptr;  // an intrusive list, because a step allocates nothing
  };

  void Grow(int workers);
  void Remove(Job* job);
  void WorkerLoop();

  std::mutex mutex_;
  std::condition_variable work_;
  Job* jobs_ = nullptr;
  bool stopping_ = false;
  std::vector<std::thread> workers_;

  // Pools that a parent process created and this process has released. They stay reachable, so that leak checkers do
  // not report them.
  static std::atomic<ThreadPool*> abandoned;
  ThreadPool* next_abandoned_ = nullptr;
};

}  // namespace shampoo
