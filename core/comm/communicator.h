// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace shampoo {

// The caller's functions (shampoo_comm_ops of the public header).
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

// Memory of a device through which host buffers are exchanged if a communicator takes no host memory.
class Staging {
 public:
  virtual ~Staging() = default;
  virtual Status Memory(int64_t bytes, char** memory) = 0;
  virtual Status ToDevice(void* to, const void* from, int64_t bytes) = 0;
  virtual Status ToHost(void* to, const void* from, int64_t bytes) = 0;
  virtual void* stream() const = 0;
};

// Ranks that exchange segments of equal size. Shared by the caller's handle and the optimizers made with it; the
// caller's release is called with the last of them.
class Communicator {
 public:
  static Status Create(const CommOps& ops, std::shared_ptr<Communicator>* out);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // What a rank is called in errors: "rank", or "shard rank".
  void Call(const char* who) { who_ = who; }
  const char* who() const { return who_; }
  // The number of an optimizer among those that were made with this communicator, the same on all ranks.
  int32_t TakeNumber() { return next_number_++; }
  int32_t numbers_taken() const { return next_number_; }

  int rank() const { return ops_.rank; }
  int world() const { return ops_.world; }
  bool takes_device_memory() const { return ops_.takes_device_memory; }

  // A collective that failed: permanent, because ranks may be at different points of the job.
  bool failed() const { return failed_; }
  Status FailedBefore() const;
  // Whether the other ranks know of the failure, or have been made to fail.
  bool failure_is_known() const { return failed_ && reported_; }
  // Whether to take part in one more exchange to report the failure; true at most once.
  bool TakeFailureToReport();
  // Marks the communicator failed by a failure that every rank knows, and returns it.
  Status FailTogether(Status failure);
  // Call when this rank takes part in nothing more. Makes the other ranks fail if the caller gave an abort function.
  void GiveUp();

  // Sets the way of host buffers to a communicator that takes memory of a device: see StagingScope.
  void StageBy(Staging* staging) { staging_ = staging; }

  // buffer: world segments of segment_bytes, of which this rank's own is filled; afterwards all are. After a failure
  // the other ranks are made to fail as far as the caller's functions can.
  Status GatherInPlace(void* buffer, int64_t segment_bytes);
  // The same in memory that the communicator takes, in the order of a stream.
  Status GatherInStream(void* buffer, int64_t segment_bytes, void* stream);

  // Gathers a number from every rank. It allocates nothing, so that a rank without memory can report that.
  Status GatherNumber(int64_t own);
  int64_t NumberOf(int rank) const { return numbers_[static_cast<size_t>(rank) * kNumberStride]; }  // of the last

  bool has_all_to_all() const { return ops_.all_to_all != nullptr; }
  // send: send_bytes[r] bytes for each rank r, one after another; recv in the same way. Failures as of GatherInPlace.
  Status AllToAll(const void* send, std::span<const size_t> send_bytes, void* recv, std::span<const size_t> recv_bytes);

 private:
  Communicator() = default;
  Status GatherStaged(void* buffer, int64_t segment_bytes);
  int32_t AsyncError() const { return ops_.async_error != nullptr ? ops_.async_error(ops_.user) : 0; }
  // What `what` returned of the caller's functions.
  Status Lost(const char* what, int32_t error, const std::string& size);

  static constexpr size_t kNumberStride = 8;  // segments of 64 bytes, as some transports favour them

  CommOps ops_;
  const char* who_ = "rank";
  int32_t next_number_ = 0;
  bool failed_ = false;
  bool reported_ = false;
  std::vector<int64_t> numbers_;
  Staging* staging_ = nullptr;
};

// While it lives, the communicator takes buffers of the host by way of `staging`.
class StagingScope {
 public:
  StagingScope(Communicator* comm, Staging* staging) : comm_(comm) { comm_->StageBy(staging); }
  ~StagingScope() { comm_->StageBy(nullptr); }
  StagingScope(const StagingScope&) = delete;
  StagingScope& operator=(const StagingScope&) = delete;

 private:
  Communicator* comm_;
};

}  // namespace shampoo
