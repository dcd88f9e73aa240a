// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Where the ranks of a communicator meet: each brings what it wants done, and the last to come does it for all of them;
// of two ranks that have a message for each other, the later one.
#pragma once

#include <nccl.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace standin {

// One rank's call of a collective, or of kSend or kReceive: its side of a message.
struct Request {
  enum Kind { kGather, kReduce, kReduceScatter, kSplit, kSend, kReceive } kind = kGather;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;  // of elements that a rank sends; of kReduceScatter, that it receives
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

// What all ranks ask for, requests[r] by rank r. Where they differ, which NCCL would not notice, none of it is done and
// the result is ncclInvalidArgument.
ncclResult_t CarryOut(const std::vector<Request>& requests);
// The two sides of a message. Of different sizes nothing is moved, and the result is ncclInvalidArgument.
ncclResult_t CarryOver(const Request& send, const Request& receive);

class Meeting {
 public:
  explicit Meeting(int world) : seats_(static_cast<size_t>(world)) {}
  int world() const { return static_cast<int>(seats_.size()); }

  // Leaves a collective, or any number of messages, and does not wait. ncclInvalidUsage: what the rank left last is not
  // carried out yet.
  ncclResult_t Post(int rank, const std::vector<Request>& requests);
  // The result of what the rank left last, once all of it is carried out, or is known never to be.
  ncclResult_t Wait(int rank);
  // The same, but ncclInProgress in place of waiting. ncclSuccess where there was nothing.
  ncclResult_t Ask(int rank);
  // All who wait, now or later, get ncclRemoteError.
  void Abort();

 private:
  struct Seat {
    Request request;
    bool waits = false;
    size_t messages = 0;  // not carried out yet
    ncclResult_t result = ncclSuccess;
  };

  void CarryOutAll();
  void Meet(int rank, const Request& message);
  void End(int rank, ncclResult_t result);
  ncclResult_t ResultOf(const Seat& seat) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Seat> seats_;
  int waiting_ = 0;  // for a collective
  // What waits for its other side: from, to.
  std::map<std::pair<int, int>, std::deque<Request>> sends_, receives_;
  bool aborted_ = false;
};

}  // namespace standin
