// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cfenv>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/base/status.h"
#include "core/base/thread_pool.h"

namespace shampoo {

// The application's own executor (shampoo_executor of the public header).
struct HostExecutor {
  void* user = nullptr;
  int32_t threads = 0;
  void (*parallel_for)(void* user, void (*task)(void* argument, int64_t i), void* argument, int64_t count) = nullptr;
};

// Gives this thread the floating-point environment (rounding, flush-to-zero, traps) of another thread, because results
// must not depend on the thread that computes them. The destructor restores this thread's own environment.
class FloatingPointMode {
 public:
  explicit FloatingPointMode(const std::fenv_t& mode) {
    std::fegetenv(&before_);
    std::fesetenv(&mode);
  }
  ~FloatingPointMode() { std::fesetenv(&before_); }
  FloatingPointMode(const FloatingPointMode&) = delete;
  FloatingPointMode& operator=(const FloatingPointMode&) = delete;

 private:
  std::fenv_t before_;
};

// Runs the parallel work of one optimizer. Each thread that takes part uses a slot, which has its own workspace. At
// most one thread uses a slot at a time. The assignment of work to threads differs from run to run, and results must
// not depend on the assignment.
class Executor {
 public:
  // Creates an executor. threads: PlanData::threads, the largest number of slots. If host.parallel_for is nullptr, the
  // executor has `threads` slots and uses the thread pool of the library. Otherwise it has min(threads, host.threads)
  // slots. The caller allocates the workspaces of the slots.
  static Status Create(int threads, const HostExecutor& host, std::unique_ptr<Executor>* out);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  int slots() const { return slots_; }

  // Calls work(slot, item) once for every item in [0, count). Items are started in ascending order, in at most `slots`
  // slots. work must not throw.
  template <typename Work>
  void ForEach(int64_t count, int slots, Work&& work) {
    std::atomic<int64_t> next{0};
    ForEachSlot(count < slots ? static_cast<int>(count) : slots, [&](int slot) {
      for (int64_t item; (item = next.fetch_add(1, std::memory_order_relaxed)) < count;) work(slot, item);
    });
  }

  template <typename Work>
  void ForEach(int64_t count, Work&& work) {
    ForEach(count, slots_, work);
  }

  // Calls work(slot) once for each of the first `slots` slots, or for every slot if the executor has fewer. The calls
  // run at the same time if enough threads are available. work must not throw.
  template <typename Work>
  void ForEachSlot(int slots, Work&& work) {
    struct Shared {
      Work* work;
      std::fenv_t mode;
    } shared{&work, {}};
    std::fegetenv(&shared.mode);
    const auto task = [](void* argument, int64_t slot) {
      auto* const mine = static_cast<Shared*>(argument);
      const FloatingPointMode mode(mine->mode);
      (*mine->work)(static_cast<int>(slot));
    };
    Run(task, &shared, slots < slots_ ? slots : slots_);
  }

 private:
  Executor(int slots, const HostExecutor& host) : slots_(slots), host_(host) {}
  void Run(ThreadPool::Task task, void* argument, int64_t slots);

  int slots_;
  HostExecutor host_;
  std::shared_ptr<ThreadPool> pool_;
};

}  // namespace shampoo
