// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/comm/round_header.h"

namespace shampoo {

// How ranks agree in a step (docs/adr/0022-one-round-protocol.md).
//
// A step makes a fixed sequence of rounds over each communicator. In a round every rank sends a RoundHeader in front of
// its payload, so that ranks notice at once that one of them has failed, or that they are not at the same round. A rank
// whose own checks fail still joins the rounds, and reports its error there. A rank whose collective failed cannot know
// which ranks noticed: it joins the next round of each communicator once more, and reports the failure there.

// The failure with which a round ends on all ranks.
struct RoundFailure {
  int rank = -1;  // whose error all ranks return; -1: no rank failed
  Code code = Code::kOk;
  bool is_forwarded = false;
  bool on_all_ranks = false;

  bool found() const { return rank >= 0; }
};

// The rounds of one optimizer over one communicator.
class Rounds {
 public:
  // optimizer: its number among those of the communicator, the same on all ranks.
  Rounds(std::shared_ptr<Communicator> comm, int32_t optimizer);

  Communicator* comm() const { return comm_.get(); }
  int32_t optimizer() const { return optimizer_; }
  // Returns an error if a collective of these ranks has failed before.
  Status PriorFailure() const { return comm_->failed() ? comm_->FailedBefore() : Status(); }
  // This rank's header for a round.
  RoundHeader HeaderFor(int64_t round, const Status& own, uint32_t flags) const;

  // Takes the headers of all ranks from what was received; header_at(rank) returns the address of the rank's header.
  // Fails on all ranks if one of them is at another round.
  template <typename HeaderAt>
  Status Receive(const RoundHeader& own, HeaderAt&& header_at) {
    for (int rank = 0; rank < comm_->world(); ++rank) {
      std::memcpy(&headers_[static_cast<size_t>(rank)], header_at(rank), sizeof own);
    }
    return CheckHeaders(own);
  }
  // Takes part in an exchange of the ranks' codes alone, without a payload.
  Status GatherCodes(const Status& own);

  // About the headers that were received last.
  const RoundHeader& header(int rank) const { return headers_[static_cast<size_t>(rank)]; }
  uint32_t AnyFlags() const;
  // The lowest rank that failed; preferably one that lost a collective, and preferably one that forwards nothing.
  RoundFailure FindFailure() const;
  // Fetches the text of a failure and returns the error of all ranks. Collective.
  Status FetchError(const RoundFailure& failure, const std::string& own_text);

  // Calls join(), which takes part in a round to report a failure: after a failed collective at most once.
  template <typename Join>
  void Report(Join&& join) {
    if (comm_->failed() && !comm_->TakeFailureToReport()) return;
    join();
  }

 private:
  Status CheckHeaders(const RoundHeader& own);

  std::shared_ptr<Communicator> comm_;
  int32_t optimizer_;
  std::vector<RoundHeader> headers_;  // by rank
};

// Returns the error of ranks that are at different rounds.
Status RoundsDiffer(const Communicator& comm, int other_rank, int64_t other_place, int64_t own_place);

}  // namespace shampoo
