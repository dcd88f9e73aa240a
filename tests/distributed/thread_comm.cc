// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/distributed/thread_comm.h"

#include <cstring>
#include <numeric>

namespace shampoo_test {

ThreadComm::ThreadComm(int world) {
  for (int rank = 0; rank < world; ++rank) ranks_.push_back({this, rank});
}

shampoo_comm_ops ThreadComm::OpsOf(int rank, bool with_abort) {
  shampoo_comm_ops ops = SHAMPOO_COMM_OPS_INIT;
  ops.user = &ranks_[static_cast<size_t>(rank)];
  ops.rank = rank;
  ops.world = world();
  ops.all_gather = [](void* user, const void* send, void* recv, size_t bytes, void*) {
    auto* const own = static_cast<Rank*>(user);
    return own->comm->Gather(own, send, recv, bytes);
  };
  ops.all_to_all = [](void* user, const void* send, const size_t* to, void* recv, const size_t* from, void*) {
    auto* const own = static_cast<Rank*>(user);
    return own->comm->AllToAll(own, send, to, recv, from);
  };
  ops.async_error = [](void* user) {
    auto* const own = static_cast<Rank*>(user);
    return own->comm->async ? own->comm->async(own->rank, own->calls + 1) : 0;
  };
  if (with_abort) {
    ops.abort = [](void* user) { static_cast<Rank*>(user)->comm->Abort(); };
  }
  ops.release = [](void* user) {
    ThreadComm* const comm = static_cast<Rank*>(user)->comm;
    const std::lock_guard lock(comm->mutex_);
    ++comm->released_;
  };
  return ops;
}

void ThreadComm::Abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  arrived_.notify_all();
}

void ThreadComm::ResetCounts() {
  for (Rank& rank : ranks_) rank.calls = rank.bytes = 0;
}

// Waits until all ranks have arrived, and returns 0. Returns kAborted after an abort, and kTimedOut after a timeout.
int32_t ThreadComm::WaitForAll(std::unique_lock<std::mutex>* lock) {
  const int64_t generation = generation_;
  if (Arrive()) return 0;
  const bool is_over = arrived_.wait_for(*lock, patience, [&] { return generation_ != generation || aborted_; });
  if (generation_ != generation) return 0;
  --waiting_;  // ranks that arrive later must not count this rank as waiting
  if (is_over) return kAborted;
  ++timeouts_;
  return kTimedOut;
}

bool ThreadComm::Arrive() {
  if (++waiting_ < world()) return false;
  waiting_ = 0;
  ++generation_;
  arrived_.notify_all();
  return true;
}

template <typename Copy>
int32_t ThreadComm::Exchange(Rank* own, void* recv, size_t bytes, Copy&& copy) {
  ++own->calls;
  if (before) {
    if (const int32_t error = before(own->rank, own->calls); error != 0) return error;
  }
  std::unique_lock lock(mutex_);
  if (aborted_) return kAborted;
  if (const int32_t error = WaitForAll(&lock); error != 0) return error;
  lock.unlock();
  bool equal = true;
  for (const Rank& rank : ranks_) equal = copy(rank) && equal;
  lock.lock();
  // No rank may return before all ranks have read the memory that it sends. This wait needs no timeout: every rank
  // arrives here, even after an abort.
  const int64_t generation = generation_;
  if (!Arrive()) arrived_.wait(lock, [&] { return generation_ != generation; });
  lock.unlock();
  if (!equal) return kDifferentSizes;
  if (change) change(own->rank, own->calls, static_cast<char*>(recv), bytes);
  return after ? after(own->rank, own->calls) : 0;
}

int32_t ThreadComm::Gather(Rank* own, const void* send, void* recv, size_t bytes) {
  own->send = send;
  own->segment = bytes;
  own->to = nullptr;
  own->bytes += static_cast<int64_t>(bytes);
  return Exchange(own, recv, bytes * ranks_.size(), [&](const Rank& rank) {
    if (rank.to != nullptr || rank.segment != bytes) return false;
    char* const target = static_cast<char*>(recv) + static_cast<size_t>(rank.rank) * bytes;
    if (target != rank.send) std::memcpy(target, rank.send, bytes);
    return true;
  });
}

int32_t ThreadComm::AllToAll(Rank* own, const void* send, const size_t* to, void* recv, const size_t* from) {
  own->send = send;
  own->to = to;
  for (int rank = 0; rank < world(); ++rank) {
    if (rank != own->rank) own->bytes += static_cast<int64_t>(to[rank]);
  }
  auto* target = static_cast<char*>(recv);
  const size_t received = std::accumulate(from, from + world(), size_t{0});
  return Exchange(own, recv, received, [&](const Rank& rank) {
    const size_t expected = from[rank.rank];
    if (rank.to == nullptr || rank.to[own->rank] != expected) return false;
    const auto* source = static_cast<const char*>(rank.send);
    for (int before_own = 0; before_own < own->rank; ++before_own) source += rank.to[before_own];
    std::memcpy(target, source, expected);
    target += expected;
    return true;
  });
}

}  // namespace shampoo_test
