// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "meeting.h"

namespace standin {

ncclResult_t Meeting::Post(int rank, const std::vector<Request>& requests) {
  const std::lock_guard lock(mutex_);
  if (aborted_) return ncclRemoteError;
  Seat& seat = seats_[static_cast<size_t>(rank)];
  if (seat.waits) return ncclInvalidUsage;
  seat.waits = true;
  if (IsMessage(requests[0])) {
    seat.messages = requests.size();
    seat.result = ncclSuccess;
    for (const Request& message : requests) Meet(rank, message);
  } else {
    seat.request = requests[0];
    if (++waiting_ == world()) ExecuteForAll();
  }
  return ncclSuccess;
}

void Meeting::Meet(int rank, const Request& message) {
  const bool sends = message.kind == Request::kSend;
  const std::pair<int, int> ranks = sends ? std::pair(rank, message.peer) : std::pair(message.peer, rank);
  std::deque<Request>& others = sends ? receives_[ranks] : sends_[ranks];
  if (others.empty()) {
    (sends ? sends_ : receives_)[ranks].push_back(message);
    return;
  }
  const Request other = others.front();
  others.pop_front();
  const ncclResult_t result = sends ? DeliverMessage(message, other) : DeliverMessage(other, message);
  End(rank, result);
  End(message.peer, result);
}

// Records the result of one message of the rank. After the last message, the post of the rank is complete.
void Meeting::End(int rank, ncclResult_t result) {
  Seat& seat = seats_[static_cast<size_t>(rank)];
  if (seat.result == ncclSuccess) seat.result = result;
  if (--seat.messages > 0) return;
  seat.waits = false;
  changed_.notify_all();
}

// Runs on the thread of the rank that posts last. This thread holds the lock and accesses the memory of all ranks.
void Meeting::ExecuteForAll() {
  std::vector<Request> requests;
  for (const Seat& seat : seats_) requests.push_back(seat.request);
  const ncclResult_t result = ExecuteCollective(requests);
  for (Seat& seat : seats_) {
    seat.waits = false;
    seat.result = result;
  }
  waiting_ = 0;
  changed_.notify_all();
}

ncclResult_t Meeting::ResultOf(const Seat& seat) const {
  if (!seat.waits) return seat.result;
  return aborted_ ? ncclRemoteError : ncclInProgress;
}

ncclResult_t Meeting::Wait(int rank) {
  std::unique_lock lock(mutex_);
  const Seat& seat = seats_[static_cast<size_t>(rank)];
  changed_.wait(lock, [&] { return !seat.waits || aborted_; });
  return ResultOf(seat);
}

ncclResult_t Meeting::Poll(int rank) {
  const std::lock_guard lock(mutex_);
  return aborted_ ? ncclRemoteError : ResultOf(seats_[static_cast<size_t>(rank)]);
}

void Meeting::Abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
}

}  // namespace standin
