// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace shampoo_test {

// A communicator between ranks that are threads of this process. It counts bytes and can inject faults. A collective
// fails on a rank that waits longer than `patience` for the other ranks, so that a test fails instead of hanging.
class ThreadComm {
 public:
  // Returns 0, or the error that a collective must return on a rank. call: the number of the rank's collective, from 1.
  using Fault = std::function<int32_t(int rank, int64_t call)>;

  explicit ThreadComm(int world);
  ThreadComm(const ThreadComm&) = delete;
  ThreadComm& operator=(const ThreadComm&) = delete;

  int world() const { return static_cast<int>(ranks_.size()); }
  // Returns the callbacks of a rank. The callback `abort` is set only if with_abort is true.
  shampoo_comm_ops OpsOf(int rank, bool with_abort = false);

  // Changes the bytes that a rank has received in a call: world() segments of an all-gather, or all bytes of an
  // all-to-all.
  using Change = std::function<void(int rank, int64_t call, char* received, size_t bytes)>;

  // Functions that are called on every rank if they are set.
  Fault before;   // called before a collective; if it returns an error, the rank does not take part
  Fault after;    // called after the rank has taken part in a collective
  Fault async;    // called by async_error, which returns the result; `call` is the number of the next collective
  Change change;  // called after the rank has taken part in a collective, and before `after`
  std::chrono::milliseconds patience = std::chrono::minutes(1);

  int64_t calls(int rank) const { return ranks_[static_cast<size_t>(rank)].calls; }
  // Bytes that a rank has sent: its segment of each all-gather, and its bytes to other ranks in each all-to-all.
  int64_t bytes_sent(int rank) const { return ranks_[static_cast<size_t>(rank)].bytes; }
  int released() const { return released_; }  // number of calls of the release callback
  int timeouts() const { return timeouts_; }  // number of timeouts, over all ranks
  void Abort();                               // makes current and later collectives fail on all ranks
  void ResetCounts();

  static constexpr int32_t kTimedOut = 1001, kDifferentSizes = 1002, kAborted = 1003;

 private:
  struct Rank {
    ThreadComm* comm;
    int rank;
    int64_t calls = 0;
    int64_t bytes = 0;
    const void* send = nullptr;
    size_t segment = 0;
    const size_t* to = nullptr;  // bytes for each rank; nullptr in an all-gather
  };
  // copy(rank) copies to `recv` the data that `rank` has sent to this rank. It returns whether both ranks make the same
  // kind of collective, with the same number of bytes.
  template <typename Copy>
  int32_t Exchange(Rank* own, void* recv, size_t bytes, Copy&& copy);
  int32_t Gather(Rank* own, const void* send, void* recv, size_t bytes);
  int32_t AllToAll(Rank* own, const void* send, const size_t* to, void* recv, const size_t* from);
  int32_t WaitForAll(std::unique_lock<std::mutex>* lock);
  bool Arrive();  // returns whether this rank is the last to arrive

  std::vector<Rank> ranks_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  int waiting_ = 0;         // number of ranks that wait for the other ranks
  int64_t generation_ = 0;  // number of times that all ranks have called Arrive()
  bool aborted_ = false;
  int released_ = 0;
  int timeouts_ = 0;
};

// Runs work(rank) for all ranks at once, each on its own thread, and returns when all have finished.
template <typename Work>
void OnEveryRank(int world, Work&& work) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) threads.emplace_back([&work, rank] { work(rank); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace shampoo_test
