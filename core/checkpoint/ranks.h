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

// The ranks that save or load a checkpoint together, and the exchanges that they make.
class Ranks {
 public:
  virtual ~Ranks() = default;

  virtual int rank() const = 0;
  virtual int world() const = 0;
  bool is_first() const { return rank() == 0; }

  // Agree(), BroadcastFromFirst(), AllGatherInts() and Collect() are collective.

  // Returns the same status on every rank: the error of the lowest rank that failed, or success if no rank failed.
  virtual Status Agree(const Status& own) const = 0;
  // Sets *number, on every rank, to the value of `own` on rank 0.
  virtual Status BroadcastFromFirst(int64_t own, int64_t* number) const = 0;
  // Gathers the same number of integers from every rank. The integers of rank r begin at (*numbers)[r * own.size()].
  // The caller must check the integers before using them as sizes or counts.
  virtual Status AllGatherInts(std::span<const int64_t> own, std::vector<int64_t>* numbers) const = 0;
  // Sends texts, such as descriptions of blocks, from all ranks to rank 0, in one or more exchanges. make(i) returns
  // text i of this rank, where i is below `count`. make may be called several times with the same i. Rank 0 calls
  // take(rank, text) for every text. The texts of one rank arrive in order. If make or take fails on this rank while
  // texts are sent, Collect() sets *own to the first error. While *own is an error, this rank calls neither make nor
  // take, but still joins all exchanges, because the other ranks wait for it.
  using Make = std::function<std::string(size_t i)>;
  using Take = std::function<void(int rank, std::string text)>;
  virtual Status Collect(size_t count, const Make& make, const Take& take, Status* own) const = 0;

  // CheckReceived() fails if a number that a rank sent is not in [least, most]. CheckAllReceived() makes this check for
  // one number of each rank (of_ranks[rank]); `what` is Received::what. Neither function is collective: the caller must
  // pass the status to Agree().
  virtual Status CheckReceived(const Received& received, int64_t least, int64_t most) const = 0;
  Status CheckAllReceived(const char* what, std::span<const int64_t> of_ranks, int64_t least, int64_t most) const;
};

// A single rank, which saves or loads without a communicator.
class OneRank final : public Ranks {
 public:
  int rank() const override { return 0; }
  int world() const override { return 1; }
  Status Agree(const Status& own) const override { return own.Copy(); }
  Status BroadcastFromFirst(int64_t own, int64_t* number) const override;
  Status AllGatherInts(std::span<const int64_t> own, std::vector<int64_t>* numbers) const override;
  Status Collect(size_t count, const Make& make, const Take& take, Status* own) const override;
  // Always succeeds, because the number is from this rank itself.
  Status CheckReceived(const Received& /*received*/, int64_t /*least*/, int64_t /*most*/) const override { return {}; }
};

// The ranks of a communicator.
class CommRanks final : public Ranks {
 public:
  explicit CommRanks(Communicator* comm) : comm_(comm) {}

  int rank() const override { return comm_->rank(); }
  int world() const override { return comm_->world(); }
  Status Agree(const Status& own) const override;
  Status BroadcastFromFirst(int64_t own, int64_t* number) const override;
  Status AllGatherInts(std::span<const int64_t> own, std::vector<int64_t>* numbers) const override;
  Status Collect(size_t count, const Make& make, const Take& take, Status* own) const override;
  Status CheckReceived(const Received& received, int64_t least, int64_t most) const override;

 private:
  Communicator* comm_;
};

// Selects OneRank or CommRanks for a save or a load. The constructor allocates nothing, because a rank that is out of
// memory must still join the first exchange.
class RanksOfCall {
 public:
  // comm: nullptr if this rank is the only one.
  explicit RanksOfCall(Communicator* comm)
      : of_comm_(comm), ranks_(comm != nullptr ? static_cast<const Ranks&>(of_comm_) : one_) {}
  RanksOfCall(const RanksOfCall&) = delete;
  RanksOfCall& operator=(const RanksOfCall&) = delete;
  const Ranks& ranks() const { return ranks_; }

 private:
  OneRank one_;
  CommRanks of_comm_;
  const Ranks& ranks_;
};

}  // namespace shampoo
