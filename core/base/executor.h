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

// A host's own way to run tasks in parallel (shampoo_executor of the public header).
struct HostExecutor {
  void* user = nullptr;
  int32_t threads = 0;
  void (*parallel_for)(void* user, void (*task)(void* argument, int64_t i), void* argument, int64_t count) = nullptr;
};

// Gives this thread the rounding, flush-to-zero and traps of another, for a while: results must not depend on which
// thread computes them.
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

// Where parallel work of one optimizer runs. A slot is a worker's place: it has workspace of its own, and at most one
// thread is in it at a time. Which thread takes which item changes from run to run; results never depend on it.
class Executor {
 public:
  // host.parallel_for == nullptr: the library's pool. At most `threads` slots: workspace was planned for so many.
  static Status Create(int threads, const HostExecutor& host, std::unique_ptr<Executor>* out);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  int slots() const { return slots_; }

  // work(slot, item) for every item of [0, count), handed out in rising order to at most so many slots; work must not
  // throw.
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

  // work(slot) for every slot of [0, slots), at the same time as far as there are threads.
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
