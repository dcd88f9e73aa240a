// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/memory.h"
#include "core/comm/communicator.h"
#include "core/comm/segment_header.h"
#include "core/plan/plan.h"

namespace shampoo {

// What a step says that fails on some of several ranks, or differs between them: the same on all.

// codes, texts: of what each rank has failed with, by rank; of which some has. echoes: whether others know more of it;
// none: no one's is one.
Status FailureOfRanks(Communicator* comm, std::span<const int64_t> codes, std::span<const char> echoes,
                      std::span<const std::string> texts);
Status StepsDiffer(int rank, int64_t step, int64_t step_of_first);
Status ScalarsDiffer(int rank);

// The gather buffer of an optimizer of several ranks, and what is said in it. Every rank makes the same calls.
class Exchange {
 public:
  // number: of this optimizer among those of the communicator.
  static Status Create(const PlanData& plan, std::shared_ptr<Communicator> comm, int32_t number,
                       const HostAllocator& allocator, std::unique_ptr<Exchange>* out);

  Communicator* comm() const { return comm_.get(); }
  int64_t buckets() const { return static_cast<int64_t>(segment_bytes_.size()); }

  // Where the update of a block lies, in its bucket.
  char* PlaceOf(const Block& block) const {
    return buffer_.data() + block.owner * segment_bytes_[static_cast<size_t>(block.bucket)] + block.exchange_offset;
  }

  // Where what is sent of a rank lies in a bucket.
  char* PayloadOf(int64_t bucket, int rank) const {
    return buffer_.data() + rank * segment_bytes_[static_cast<size_t>(bucket)] + kSegmentHeaderBytes;
  }

  // Sends this rank's segment, with the header, and brings those of all. A failure is told in the next exchange of the
  // step.
  Status Gather(int64_t bucket, SegmentHeader own);
  // Takes part in the exchange after the one that has ended the step for the ranks that could take part in that: a rank
  // that could not goes on to this one to tell of it. verdict: how the step has ended.
  Status Pass(const Status& verdict);

  // After an exchange: the failure of a rank becomes that of all, with its text. own: of this rank's checks.
  Status CheckFailures(const Status& own);
  // After the first exchange of a step: whether all ranks make the same step.
  Status CompareHeaders() const;
  // Takes part in an exchange to tell of a failure, unless that has been done.
  void Tell(int64_t bucket, const Status& failure);
  // Whether a field is the same in the headers of all ranks.
  bool Same(uint64_t SegmentHeader::*field) const {
    return std::all_of(headers_.begin(), headers_.end(),
                       [&](const SegmentHeader& header) { return header.*field == headers_[0].*field; });
  }
  const SegmentHeader& HeaderOf(int rank) const { return headers_[static_cast<size_t>(rank)]; }

 private:
  Status GatherOnce(int64_t bucket, SegmentHeader own);
  Status RequirePlace(int rank);
  Status RequireHeaders();
  // Of this optimizer and this exchange of a step: what header.place must be.
  int64_t PlaceInOrder(int64_t bucket) const { return int64_t{number_} << 32 | bucket; }

  Exchange(const PlanData& plan, std::shared_ptr<Communicator> comm, int32_t number);

  std::shared_ptr<Communicator> comm_;
  int32_t number_;
  std::vector<int64_t> segment_bytes_;
  Allocation buffer_;
  std::vector<SegmentHeader> headers_;  // of the last exchange, by rank
  int64_t factors_ = 0;                 // factor matrices of the plan
};

}  // namespace shampoo
