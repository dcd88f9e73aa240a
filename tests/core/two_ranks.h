// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "tests/core/thread_ranks.h"

namespace shampoo {

// Two ranks that are threads, each with an object that is constructed from its communicator.
template <typename Rank>
class TwoRanks {
 public:
  // fails: see ThreadRanks.
  explicit TwoRanks(std::function<bool(int rank, int64_t call)> fails = {}) {
    comms_.fails = std::move(fails);
    for (int rank = 0; rank < 2; ++rank) ranks_.push_back(std::make_unique<Rank>(comms_.comm(rank)));
  }
  // Runs work(number of the rank, its object) on both threads. Returns what it returns.
  template <typename Work>
  std::vector<Status> Run(Work&& work) {
    std::vector<Status> statuses(2);
    comms_.Run([&](int rank) { statuses[static_cast<size_t>(rank)] = work(rank, (*this)[static_cast<size_t>(rank)]); });
    return statuses;
  }
  Rank& operator[](size_t rank) { return *ranks_[rank]; }

 private:
  ThreadRanks comms_{2};
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace shampoo
