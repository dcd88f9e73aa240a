// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"

namespace shampoo {

// The functions of the caller (shampoo_comm_ops in the public header).
struct CommOps {
  void* user = nullptr;
  int rank = 0;
  int world = 1;
  bool takes_device_memory = false;
  int32_t (*all_gather)(void* user, const void* send, void* recv, size_t bytes_per_rank, void* stream) = nullptr;
  int32_t (*all_to_all)(void* user, const void* send, const size_t* send_bytes, void* recv, const size_t* recv_bytes,
                        void* stream) = nullptr;
  int32_t (*async_error)(void* user) = nullptr;
  void (*abort)(void* user) = nullptr;
  void (*release)(void* user) = nullptr;
};

// Device memory through which host buffers are exchanged when a communicator takes only device memory.
class Staging {
 public:
  virtual ~Staging() = default;
  // Sets *memory to device memory of `bytes` bytes. The next call may reuse this memory.
  virtual Status Memory(int64_t bytes, char** memory) = 0;
  virtual Status ToDevice(void* to, const void* from, int64_t bytes) = 0;
  virtual Status ToHost(void* to, const void* from, int64_t bytes) = 0;
  virtual void* stream() const = 0;
};

// The ranks that exchange data with each other. The caller's handle and the optimizers that were created with it share
// this object. When the last of them is destroyed, the caller's release function is called.
class Communicator {
 public:
  static Status Create(const CommOps& ops, std::shared_ptr<Communicator>* out);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Sets how errors name a rank: "rank", or "shard rank" once an optimizer uses the communicator for shards.
  void SetRankName(const char* name) { rank_name_ = name; }
  const char* rank_name() const { return rank_name_; }
  // Returns the number for an optimizer that is being created with this communicator; 0 for the first optimizer. The
  // number is the same on all ranks.
  int32_t TakeOptimizerId() { return next_optimizer_id_++; }
  int32_t optimizer_ids_taken() const { return next_optimizer_id_; }

  int rank() const { return ops_.rank; }
  int world() const { return ops_.world; }
  bool takes_device_memory() const { return ops_.takes_device_memory; }

  // Returns whether Abort() or FailTogether() was called, for example because a collective or a CUDA call failed. Such
  // a failure is permanent, because ranks may be at different points of the job afterwards.
  bool failed() const { return failed_; }
  // Returns an error if failed().
  Status PriorFailure() const;
  // Returns whether the communicator has failed and this rank does not need to report the failure any more, because
  // TakeFailureToReport() has returned true, FailTogether() was called, or the caller's abort function was called.
  bool failure_is_known() const { return failed_ && reported_; }
  // Returns whether this rank should join one more exchange to report its failure. Returns true at most once.
  bool TakeFailureToReport();
  // Marks the communicator as failed because of an error that every rank knows, and returns the error.
  Status FailTogether(Status failure);
  // Marks the communicator as failed: this rank makes no further exchanges, except one to report the failure. Calls the
  // caller's abort function, if there is one, so that the other ranks fail instead of waiting. error: the reason, which
  // is logged first, because the abort function may end the process.
  void Abort(const Status& error);

  // Sets the Staging through which host buffers are exchanged, or none if `staging` is nullptr. Returns the previous
  // Staging; see StagingScope. A Staging is used only if takes_device_memory().
  Staging* SetStaging(Staging* staging) { return std::exchange(staging_, staging); }

  // Makes an all-gather in place. buffer: world() segments of segment_bytes each. The caller fills only this rank's
  // segment, and the call fills the others. A failure aborts the communicator.
  Status GatherInPlace(void* buffer, int64_t segment_bytes);
  // Makes an all-gather in place, in the order of a stream. buffer must be memory of the kind that the communicator
  // takes, because this function does not use Staging.
  // captured: whether the stream is being captured into a CUDA graph. If all_gather fails during a capture, the step
  // cannot be captured, but the communicator is not aborted.
  Status GatherInStream(void* buffer, int64_t segment_bytes, void* stream, bool captured = false);

  // Gathers an integer from every rank. Without staging, this function allocates nothing, so that a rank that is out of
  // memory can report its error. With staging, it allocates device memory if no earlier exchange was as large.
  Status AllGatherInt(int64_t own);
  // Returns the integer that a rank sent in the last AllGatherInt().
  int64_t GatheredInt(int rank) const { return gathered_ints_[static_cast<size_t>(rank) * kIntStride]; }

  bool has_all_to_all() const { return ops_.all_to_all != nullptr; }
  // Sends send_bytes[r] bytes to each rank r, and receives recv_bytes[r] bytes from each rank r. Both buffers are in
  // rank order. A failure aborts the communicator.
  Status AllToAll(const void* send, std::span<const size_t> send_bytes, void* recv,
                  std::span<const size_t> recv_bytes) {
    return AllToAllInStream(send, send_bytes, recv, recv_bytes, nullptr);
  }
  // Makes an all-to-all in the order of a stream. send and recv must be memory of the kind that the communicator takes.
  // captured: as for GatherInStream().
  Status AllToAllInStream(const void* send, std::span<const size_t> send_bytes, void* recv,
                          std::span<const size_t> recv_bytes, void* stream, bool captured = false);

 private:
  Communicator() = default;
  Status GatherStaged(void* buffer, int64_t segment_bytes);
  // Calls a collective of the caller, unless async_error reports an earlier failure. size: returns the amount of data,
  // for the error message.
  template <typename Function, typename Size>
  Status Call(const char* what, bool captured, const Function& function, const Size& size);
  // Returns the error for a caller's function that failed. Aborts the communicator, unless the stream is captured.
  // what: the name of the function. size: the amount of data, for the error message.
  Status CollectiveError(const char* what, int32_t error, bool captured, const std::string& size);

  static constexpr size_t kIntStride = 8;  // segments of 64 bytes, which some transports transfer faster

  CommOps ops_;
  const char* rank_name_ = "rank";
  int32_t next_optimizer_id_ = 0;
  bool failed_ = false;
  bool reported_ = false;               // whether this rank does not need to report a failure any more
  std::vector<int64_t> gathered_ints_;  // the integer of rank r is at r * kIntStride
  Staging* staging_ = nullptr;
};

// While this object exists, the communicator copies host buffers through `staging`.
class StagingScope {
 public:
  StagingScope(Communicator* comm, Staging* staging) : comm_(comm), previous_(comm->SetStaging(staging)) {}
  ~StagingScope() { comm_->SetStaging(previous_); }
  StagingScope(const StagingScope&) = delete;
  StagingScope& operator=(const StagingScope&) = delete;

 private:
  Communicator* comm_;
  Staging* previous_;
};

}  // namespace shampoo
