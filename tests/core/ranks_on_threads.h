// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "core/base/status.h"
#include "tests/core/thread_ranks.h"

namespace shampoo {

// The number of ranks, and whether their communicators have an all-to-all.
struct ThreadWorld {
  ThreadWorld(int world, bool has_all_to_all = false) : ranks(world), with_all_to_all(has_all_to_all) {}

  int ranks;
  bool with_all_to_all;
};

// Ranks of a test that run as threads. Each rank has an object of type Rank, which is constructed from the communicator
// of the rank and `args`.
template <typename Rank>
class RanksOnThreads {
 public:
  template <typename... Args>
  explicit RanksOnThreads(const ThreadWorld& world, const Args&... args) : threads(world.ranks, world.with_all_to_all) {
    for (int rank = 0; rank < world.ranks; ++rank) {
      ranks_.push_back(std::make_unique<Rank>(threads.comm(rank), args...));
    }
  }
  // Runs work(number of the rank, object of the rank) for all ranks at the same time. Returns the results by rank.
  template <typename Work>
  std::vector<Status> Run(Work&& work) {
    std::vector<Status> statuses(ranks_.size());
    threads.Run([&](int rank) {
      const auto at = static_cast<size_t>(rank);
      statuses[at] = work(rank, *ranks_[at]);
    });
    return statuses;
  }
  Rank& operator[](size_t rank) { return *ranks_[rank]; }

  ThreadRanks threads;

 private:
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace shampoo
