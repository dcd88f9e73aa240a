// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/comm/communicator.h"

namespace shampoo {

// Creates a communicator for each rank. The ranks are threads of this process. If a rank does not join a collective
// within a minute, the collective fails on the ranks that have joined it, so that the test ends.
class ThreadRanks {
 public:
  explicit ThreadRanks(int world, bool with_all_to_all = false) {
    for (int rank = 0; rank < world; ++rank) ranks_.push_back(std::make_unique<Rank>(Rank{this, rank}));
    for (const auto& rank : ranks_) {
      CommOps ops;
      ops.user = rank.get();
      ops.rank = rank->number;
      ops.world = world;
      ops.all_gather = AllGather;
      if (with_all_to_all) ops.all_to_all = AllToAll;
      std::shared_ptr<Communicator> made;
      REQUIRE(Communicator::Create(ops, &made).ok());
      comms_.push_back(std::move(made));
    }
  }

  int world() const { return static_cast<int>(ranks_.size()); }
  std::shared_ptr<Communicator> comm(int rank) const { return comms_[static_cast<size_t>(rank)]; }
  // If `fails` is set, each rank calls it after each collective that all ranks have completed. If the result is true,
  // the collective returns an error on the rank `rank`.
  // `call` counts the collectives of the rank since `fails` was set: 1 is the first of them.
  std::function<bool(int rank, int64_t call)> fails;

  // Runs work(rank) for all ranks, each on its own thread. A REQUIRE that fails in `work` ends the process.
  template <typename Work>
  void Run(Work&& work) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world(); ++rank) threads.emplace_back([&work, rank] { work(rank); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  struct Rank {
    ThreadRanks* all;
    int number;
    int64_t calls = 0;
    const char* send = nullptr;
    const size_t* send_bytes = nullptr;
  };

  static int32_t AllGather(void* user, const void* send, void* recv, size_t bytes, void* /*stream*/) {
    auto* const own = static_cast<Rank*>(user);
    return own->all->Exchange(own, send, nullptr, [&](const Rank& from) {
      char* const to = static_cast<char*>(recv) + static_cast<size_t>(from.number) * bytes;
      if (&from != own) std::memcpy(to, from.send, bytes);
    });
  }
  static int32_t AllToAll(void* user, const void* send, const size_t* send_bytes, void* recv, const size_t* recv_bytes,
                          void* /*stream*/) {
    auto* const own = static_cast<Rank*>(user);
    char* to = static_cast<char*>(recv);
    return own->all->Exchange(own, send, send_bytes, [&](const Rank& from) {
      size_t at = 0;
      for (int rank = 0; rank < own->number; ++rank) at += from.send_bytes[rank];
      const size_t bytes = recv_bytes[from.number];
      std::memcpy(to, from.send + at, bytes);
      to += bytes;
    });
  }

  template <typename Copy>
  int32_t Exchange(Rank* own, const void* send, const size_t* send_bytes, Copy&& copy) {
    own->send = static_cast<const char*>(send);
    own->send_bytes = send_bytes;
    if (!WaitForAll()) return 1;
    for (const auto& rank : ranks_) copy(*rank);
    if (!WaitForAll()) return 1;
    return fails && fails(own->number, ++own->calls) ? 2 : 0;
  }
  bool WaitForAll() {
    std::unique_lock lock(mutex_);
    const int64_t turn = turn_;
    if (++waiting_ == world()) {
      waiting_ = 0;
      ++turn_;
      arrived_.notify_all();
      return true;
    }
    return arrived_.wait_for(lock, std::chrono::minutes(1), [&] { return turn_ != turn; });
  }

  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::shared_ptr<Communicator>> comms_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  int waiting_ = 0;
  int64_t turn_ = 0;
};

}  // namespace shampoo
