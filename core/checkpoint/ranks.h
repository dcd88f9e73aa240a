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

// The ranks that save or load together; without a communicator there is one.
class Ranks {
 public:
  explicit Ranks(Communicator* comm) : comm_(comm) {}

  int rank() const { return comm_ != nullptr ? comm_->rank() : 0; }
  int world() const { return comm_ != nullptr ? comm_->world() : 1; }
  bool is_first() const { return rank() == 0; }

  // Collective, all of the following.

  // The failure of the lowest rank that has one, on all.
  Status Agree(const Status& own) const;
  // What rank 0 has.
  Status FromFirst(int64_t own, int64_t* number) const;
  // Everybody's numbers, as many from each, rank by rank. Whoever uses them as sizes or counts checks them first.
  Status Numbers(std::span<const int64_t> own, std::vector<int64_t>* numbers) const;
  // Brings texts of all ranks to rank 0, a few at a time: take(rank, text) there, in each rank's order. make(i) gives
  // the i-th of this rank's, as often as it is asked for. own: the first failure of make and take on this rank, who
  // goes on all the same, as others wait.
  using Make = std::function<std::string(size_t i)>;
  using Take = std::function<void(int rank, std::string text)>;
  Status Collect(size_t count, const Make& make, const Take& take, Status* own) const;

  // Not collective: whether a number that a rank sent, or one of each rank, is in [least, most]. The ranks agree on it.
  Status CheckReceived(const Received& received, int64_t least, int64_t most) const;
  Status CheckReceived(const char* what, std::span<const int64_t> of_ranks, int64_t least, int64_t most) const;

 private:
  Communicator* comm_;
};

}  // namespace shampoo
