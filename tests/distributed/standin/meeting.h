// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Synchronizes the ranks of a communicator: each rank posts a request for a collective, and the last rank that posts
// executes the collective for all ranks. The sender and the receiver of a message each post a request, and the rank
// that posts later copies the data.
#pragma once

#include <nccl.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace standin {

// One rank's call of a collective, or its side of a message (kSend or kReceive).
struct Request {
  enum Kind { kGather, kReduce, kReduceScatter, kSplit, kSend, kReceive } kind = kGather;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;  // elements that a rank sends or, with kReduceScatter or kReceive, receives
  ncclDataType_t datatype = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int color = 0;
  int key = 0;
  ncclComm_t* new_comm = nullptr;
  int peer = 0;
};

inline bool IsMessage(const Request& request) {
  return request.kind == Request::kSend || request.kind == Request::kReceive;
}

// Executes the collective of all ranks; requests[r] is the request of rank r. If the ranks request different
// collectives, sizes, dtypes or operations, nothing is executed and the result is ncclInvalidArgument. NCCL would not
// detect such differences.
ncclResult_t ExecuteCollective(const std::vector<Request>& requests);
// Copies a message from the sender to the receiver. If their requests have different sizes, copies nothing and returns
// ncclInvalidArgument.
ncclResult_t DeliverMessage(const Request& send, const Request& receive);

class Meeting {
 public:
  explicit Meeting(int world) : seats_(static_cast<size_t>(world)) {}
  int world() const { return static_cast<int>(seats_.size()); }

  // Posts a collective or any number of messages without waiting. Returns ncclInvalidUsage if the previous post of the
  // rank is not complete.
  ncclResult_t Post(int rank, const std::vector<Request>& requests);
  // Waits until the last post of the rank is complete or has failed, and returns its result.
  ncclResult_t Wait(int rank);
  // Like Wait, but returns ncclInProgress instead of waiting. Returns ncclSuccess if the rank has posted nothing.
  ncclResult_t Poll(int rank);
  // Makes all later calls of Post and Poll return ncclRemoteError. Wait returns ncclRemoteError, too, if the last post
  // of the rank is not complete.
  void Abort();

 private:
  // The last post of one rank.
  struct Seat {
    Request request;      // only for a collective
    bool waits = false;   // whether the post is not complete yet
    size_t messages = 0;  // number of posted messages that are not delivered yet
    ncclResult_t result = ncclSuccess;
  };

  void ExecuteForAll();
  void Meet(int rank, const Request& message);
  void End(int rank, ncclResult_t result);
  ncclResult_t ResultOf(const Seat& seat) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Seat> seats_;
  int waiting_ = 0;  // number of ranks that have posted the next collective
  // Messages that only the sender or only the receiver has posted, for each pair of sender and receiver.
  std::map<std::pair<int, int>, std::deque<Request>> sends_, receives_;
  bool aborted_ = false;
};

}  // namespace standin
