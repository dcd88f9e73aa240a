// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <atomic>
#include <cfenv>
#include <thread>
#include <vector>

#include "core/base/cpu_count.h"
#include "core/base/executor.h"

namespace shampoo {
namespace {

std::unique_ptr<Executor> Pool(int threads) {
  std::unique_ptr<Executor> executor;
  REQUIRE(Executor::Create(threads, {}, &executor).ok());
  return executor;
}

TEST_CASE("ForEach runs every item once, and no two threads use the same slot at the same time") {
  for (int threads : {1, 2, 8, 33}) {
    auto executor = Pool(threads);
    for (int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
      std::vector<std::atomic<int>> inside(static_cast<size_t>(threads));
      std::atomic<bool> shared_slot{false};
      executor->ForEach(count, [&](int slot, int64_t item) {
        if (inside[static_cast<size_t>(slot)].fetch_add(1) != 0) shared_slot = true;
        runs[static_cast<size_t>(item)].fetch_add(1);
        inside[static_cast<size_t>(slot)].fetch_sub(1);
      });
      CHECK(!shared_slot);
      for (auto& run : runs) CHECK(run == 1);
    }
  }
}

TEST_CASE("work runs in the caller's floating-point mode on every thread") {
  auto executor = Pool(4);
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TONEAREST}) {
    std::fesetround(mode);
    std::atomic<int> wrong_mode{0};
    std::atomic<int> inside{0};
    executor->ForEach(4, [&](int, int64_t) {
      if (std::fegetround() != mode) ++wrong_mode;
      ++inside;
      while (inside < 2) std::this_thread::yield();  // so that a second thread takes part
    });
    std::fesetround(FE_TONEAREST);
    CHECK(wrong_mode == 0);
  }
}

TEST_CASE("two threads can use different executors at the same time") {
  auto first = Pool(4);
  auto second = Pool(3);
  std::atomic<int64_t> total{0};
  auto many = [&total](Executor* executor) {
    for (int round = 0; round < 500; ++round) {
      executor->ForEach(20, [&total](int, int64_t item) { total.fetch_add(item); });
    }
  };
  std::thread other(many, first.get());
  many(second.get());
  other.join();
  CHECK(total == 2 * 500 * 190);
}

TEST_CASE("ForEach runs two items on two threads at the same time") {
  auto executor = Pool(2);
  std::atomic<int> arrived{0};
  // Each of the two items waits for the other, so a single thread would never return.
  executor->ForEach(2, [&arrived](int, int64_t) {
    arrived.fetch_add(1);
    while (arrived.load() < 2) std::this_thread::yield();
  });
  CHECK(arrived == 2);
}

TEST_CASE("an executor of the caller gets at most as many tasks as the optimizer has threads") {
  int64_t slots = 0;
  HostExecutor host;
  host.user = &slots;
  host.threads = 64;
  host.parallel_for = [](void* user, void (*task)(void*, int64_t), void* argument, int64_t count) {
    *static_cast<int64_t*>(user) = count;
    for (int64_t i = count - 1; i >= 0; --i) task(argument, i);
  };
  std::unique_ptr<Executor> executor;
  REQUIRE(Executor::Create(3, host, &executor).ok());
  std::vector<int> runs(100);
  executor->ForEach(100, [&runs](int, int64_t item) { ++runs[static_cast<size_t>(item)]; });
  for (int run : runs) CHECK(run == 1);
  CHECK(slots == 3);
}

TEST_CASE("a CPU quota is converted to a whole number of processors, rounded up") {
  // CpusFromQuota returns 0 if there is no quota or the text is invalid.
  CHECK(CpusFromQuota("max 100000\n") == 0);
  CHECK(CpusFromQuota("200000 100000\n") == 2);
  CHECK(CpusFromQuota("150000 100000\n") == 2);
  CHECK(CpusFromQuota("1000 100000") == 1);
  CHECK(CpusFromQuota("-1\n 100000\n") == 0);
  CHECK(CpusFromQuota("") == 0);
  CHECK(CpusFromQuota("12") == 0);
  CHECK(CpusFromQuota("1 0") == 0);
  CHECK(UsableCpus() >= 1);
}

}  // namespace
}  // namespace shampoo
