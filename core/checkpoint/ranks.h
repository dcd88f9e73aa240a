// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/comm/received.h"

namespace shampoo {

// The ranks that save or load together. Without a communicator there is one rank.
class Ranks {
 public:
  explicit Ranks(Communicator* comm) : comm_(comm) {}

  int rank() const { return comm_ != nullptr ? comm_->rank() : 0; }
  int world() const { return comm_ != nullptr ? comm_->world() : 1; }
  bool is_first() const { return rank() == 0; }

  // The following functions are collective.

  // Returns, on every rank, the error of the lowest rank that failed.
  Status Agree(const Status& own) const;
  // Sets *number to rank 0's `own` on every rank.
  Status BroadcastFromFirst(int64_t own, int64_t* number) const;
  // Gathers the same number of integers from every rank. The caller must check them before it uses them as sizes or
  // counts.
  Status AllGatherInts(std::span<const int64_t> own, std::vector<int64_t>* numbers) const;
  // Sends the texts of all ranks to rank 0, a few at a time. make(i) returns the i-th of this rank's `count` texts; it
  // may be called several times. Rank 0 calls take(rank, text), for each rank in the order of its texts. *own receives
  // the first error of make or take on this rank. After such an error the rank still joins all exchanges, because the
  // other ranks wait for it.
  using Make = std::function<std::string(size_t i)>;
  using Take = std::function<void(int rank, std::string text)>;
  Status Collect(size_t count, const Make& make, const Take& take, Status* own) const;

  // Fail unless a number that a rank sent, or one number of each rank, is in [least, most]. Not collective: the callers
  // agree on the status.
  Status CheckReceived(const Received& received, int64_t least, int64_t most) const;
  Status CheckReceived(const char* what, std::span<const int64_t> of_ranks, int64_t least, int64_t most) const;

 private:
  Communicator* comm_;
};

}  // namespace shampoo
