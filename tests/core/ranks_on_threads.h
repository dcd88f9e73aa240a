// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "core/base/status.h"
#include "tests/core/thread_ranks.h"

namespace shampoo {

// An object for each rank of a ThreadRanks, constructed from the communicator of the rank and `args`.
template <typename Rank>
class RanksOnThreads {
 public:
  template <typename... Args>
  explicit RanksOnThreads(ThreadRanks* threads, const Args&... args) : threads_(threads) {
    for (int rank = 0; rank < threads->world(); ++rank) {
      ranks_.push_back(std::make_unique<Rank>(threads->comm(rank), args...));
    }
  }
  // Runs work(number of the rank, object of the rank) for all ranks at the same time, and returns the results.
  template <typename Work>
  std::vector<Status> Run(Work&& work) {
    std::vector<Status> statuses(ranks_.size());
    threads_->Run([&](int rank) {
      const auto at = static_cast<size_t>(rank);
      statuses[at] = work(rank, *ranks_[at]);
    });
    return statuses;
  }
  Rank& operator[](size_t rank) { return *ranks_[rank]; }

 private:
  ThreadRanks* threads_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace shampoo
