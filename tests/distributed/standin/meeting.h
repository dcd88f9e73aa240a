// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Where the ranks of a communicator meet: each brings what it wants done, and the last to come does it for all of them.
#pragma once

#include <nccl.h>

#include <condition_variable>
#include <mutex>
#include <vector>

namespace standin {

// One rank's call of a collective.
struct Request {
  enum Kind { kGather, kReduce, kReduceScatter, kSplit } kind = kGather;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;  // of elements that a rank sends; of kReduceScatter, that it receives
  ncclDataType_t datatype = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int color = 0;
  int key = 0;
  ncclComm_t* new_comm = nullptr;
};

// What all ranks ask for, requests[r] by rank r. Where they differ, which NCCL would not notice, none of it is done and
// the result is ncclInvalidArgument.
ncclResult_t CarryOut(const std::vector<Request>& requests);

class Meeting {
 public:
  explicit Meeting(int world) : seats_(static_cast<size_t>(world)) {}
  int world() const { return static_cast<int>(seats_.size()); }

  // Leaves a request and does not wait. ncclInvalidUsage: the rank's last request is not carried out yet.
  ncclResult_t Post(int rank, const Request& request);
  // The result of the rank's last request, once it is carried out, or is known never to be.
  ncclResult_t Wait(int rank);
  // The same, but ncclInProgress in place of waiting. ncclSuccess where there was no request.
  ncclResult_t Ask(int rank);
  // All who wait, now or later, get ncclRemoteError.
  void Abort();

 private:
  struct Seat {
    Request request;
    bool waits = false;
    ncclResult_t result = ncclSuccess;
  };

  void CarryOutAll();
  ncclResult_t ResultOf(const Seat& seat) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Seat> seats_;
  int waiting_ = 0;
  bool aborted_ = false;
};

}  // namespace standin
