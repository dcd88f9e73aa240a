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

// How ranks agree on errors in a step (docs/adr/0022-one-round-protocol.md).
//
// A round is an exchange between the ranks of a communicator. A step makes a fixed sequence of rounds over each
// communicator. In each round, every rank sends a RoundHeader in front of its payload; GatherCodes() describes the only
// exception. From the headers, every rank sees whether any rank has failed or is at another round.
//
// A rank whose own checks fail still joins the round, and reports the code of its error in its header. All ranks then
// exchange their error messages ("texts"):
//
//   rank A              rank B (check fails)
//   round 0 ----------- round 0                codes in the headers: {0, code}
//   texts ------------- texts                  FetchError(): both return B's error
//
// A rank whose collective failed cannot know which other ranks noticed the failure. It joins the next round of each
// communicator once, to report the failure (Report()):
//
//   rank A              rank B
//   round 0: ok         round 0: fails on B alone
//   round 1 ----------- round 1                codes in the headers: {0, COMM}
//   texts ------------- texts                  both return B's error, now and in every later step

// The last part of every error message about ranks that are at different rounds. Messages call a round an exchange.
inline constexpr char kStepInTheSameOrder[] =
    " (optimizers are numbered from 0 in the order in which they were created): if several optimizers use the same "
    "communicator, step them in the same order on all ranks";

// The failure with which a round ends on all ranks.
struct RoundFailure {
  int rank = -1;  // the rank whose error all ranks return; -1: no rank failed
  Code code = Code::kOk;
  bool is_forwarded = false;  // `rank` only reports the failure of another rank (kFailureIsForwarded)
  bool on_all_ranks = false;  // every rank reported a failure

  bool found() const { return rank >= 0; }
};

// The rounds of one optimizer over one communicator.
class Rounds {
 public:
  // optimizer: from Communicator::TakeOptimizerId().
  Rounds(std::shared_ptr<Communicator> comm, int32_t optimizer);

  Communicator* comm() const { return comm_.get(); }
  int32_t optimizer() const { return optimizer_; }
  Status PriorFailure() const { return comm_->PriorFailure(); }
  // Returns this rank's header for a round. round: the number of the round within the step. own: the status to report.
  RoundHeader HeaderFor(int64_t round, const Status& own, uint32_t flags) const;

  // Copies and checks the headers that all ranks have sent. header_at(rank) returns the address of a rank's header.
  // own: the header that this rank has sent. Fails on all ranks if a rank is at another round.
  template <typename HeaderAt>
  Status Receive(const RoundHeader& own, HeaderAt&& header_at) {
    for (int rank = 0; rank < comm_->world(); ++rank) {
      std::memcpy(&headers_[static_cast<size_t>(rank)], header_at(rank), sizeof own);
    }
    return CheckHeaders(own);
  }
  // Makes a round in which every rank sends only its code and flags, as one integer instead of a RoundHeader. This
  // round cannot detect a rank that is at another round.
  Status GatherCodes(const Status& own, uint32_t flags);

  // Returns the header that a rank sent in the last round.
  const RoundHeader& header(int rank) const { return headers_[static_cast<size_t>(rank)]; }
  // Returns the bits that any rank set in its flags in the last round.
  uint32_t AnyFlags() const;
  // Returns whether all ranks set the flag kExports in the last round.
  bool AllExport() const;
  // Returns the failure whose error all ranks return. A failed collective has priority over other failures. A
  // forwarded failure, with which a rank only reports the failure of another rank, comes last. Among failures of the
  // same priority, the failure of the lowest rank is returned.
  RoundFailure FindFailure() const;
  // Gathers the error messages of all ranks and returns the error that all ranks return. Collective. Makes one
  // all-gather. The function allocates nothing before the all-gather, so a rank that is out of memory can take part.
  // own_text: this rank's error message; "" if this rank has not failed.
  Status FetchError(const RoundFailure& failure, const std::string& own_text);

  // Calls join(), a function of the caller that joins a round to report a failure of this rank. After a failed
  // collective, all calls of Report() together call join() at most once.
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
  std::vector<char> texts_;           // for FetchError
};

// Returns the error for ranks that are at different rounds. other_place, own_place: values of PlaceOfRound().
Status RoundsDiffer(const Communicator& comm, int other_rank, int64_t other_place, int64_t own_place);

}  // namespace shampoo
