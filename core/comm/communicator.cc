// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/comm/communicator.h"

#include <numeric>
#include <utility>

#include "core/base/amount.h"
#include "core/base/log.h"
#include "core/comm/received.h"

namespace shampoo {

Status Communicator::Create(const CommOps& ops, std::shared_ptr<Communicator>* out) {
  if (ops.all_gather == nullptr) return Invalid("ops.all_gather is NULL: expected a function");
  constexpr int kMaxRanks = 1 << 20;
  if (ops.world < 1 || ops.world > kMaxRanks) {
    return Invalid("ops.world is ", ops.world, ": expected 1 to ", kMaxRanks);
  }
  if (ops.rank < 0 || ops.rank >= ops.world) {
    return Invalid("ops.rank is ", ops.rank, ": expected ", IndicesText(ops.world), " because ops.world is ",
                   ops.world);
  }
  // Set ops_ last: if an allocation fails, the destructor must not call the caller's release function.
  std::shared_ptr<Communicator> made(new Communicator);
  made->gathered_ints_.resize(static_cast<size_t>(ops.world) * kIntStride);
  made->ops_ = ops;
  *out = std::move(made);
  return {};
}

Communicator::~Communicator() {
  if (ops_.release != nullptr) ops_.release(ops_.user);
}

Status Communicator::GatherInPlace(void* buffer, int64_t segment_bytes) {
  if (staging_ == nullptr || !takes_device_memory()) return GatherInStream(buffer, segment_bytes, nullptr);
  Status status = GatherStaged(buffer, segment_bytes);
  if (!status.ok() && !failed_) Abort(status);
  return status;
}

Status Communicator::GatherStaged(void* buffer, int64_t segment_bytes) {
  const int64_t bytes = segment_bytes * ops_.world;
  const int64_t own = segment_bytes * ops_.rank;
  char* staged = nullptr;
  SHAMPOO_RETURN_IF_ERROR(staging_->Memory(bytes, &staged));
  SHAMPOO_RETURN_IF_ERROR(staging_->ToDevice(staged + own, static_cast<char*>(buffer) + own, segment_bytes));
  SHAMPOO_RETURN_IF_ERROR(GatherInStream(staged, segment_bytes, staging_->stream()));
  return staging_->ToHost(buffer, staged, bytes);
}

template <typename Function, typename Size>
Status Communicator::Call(const char* what, bool captured, const Function& function, const Size& size) {
  // async_error reports errors of earlier collectives. Such an error makes the communicator fail even during a capture.
  const int32_t earlier = ops_.async_error != nullptr ? ops_.async_error(ops_.user) : 0;
  if (earlier != 0) return CollectiveError("async_error", earlier, false, "an earlier collective");
  const int32_t error = function();
  return error == 0 ? Status() : CollectiveError(what, error, captured, size());
}

Status Communicator::GatherInStream(void* buffer, int64_t segment_bytes, void* stream, bool captured) {
  const char* const own = static_cast<const char*>(buffer) + ops_.rank * segment_bytes;
  return Call(
      "all_gather", captured,
      [&] { return ops_.all_gather(ops_.user, own, buffer, static_cast<size_t>(segment_bytes), stream); },
      [&] { return Cat("segments of ", segment_bytes, " bytes"); });
}

Status Communicator::AllGatherInt(int64_t own) {
  gathered_ints_[static_cast<size_t>(ops_.rank) * kIntStride] = own;
  SHAMPOO_RETURN_IF_ERROR(GatherInPlace(gathered_ints_.data(), kIntStride * sizeof(int64_t)));
  const int64_t returned = GatheredInt(ops_.rank);
  if (returned == own) return {};
  Status error = CommFailed(rank_name_, " ", ops_.rank, " received ", returned, " at its own position; expected ", own,
                            ", the number that it sent", kCheckRanks);
  Abort(error);
  return error;
}

Status Communicator::AllToAllInStream(const void* send, std::span<const size_t> send_bytes, void* recv,
                                      std::span<const size_t> recv_bytes, void* stream, bool captured) {
  const auto sum = [](std::span<const size_t> bytes) { return std::accumulate(bytes.begin(), bytes.end(), size_t{0}); };
  return Call(
      "all_to_all", captured,
      [&] { return ops_.all_to_all(ops_.user, send, send_bytes.data(), recv, recv_bytes.data(), stream); },
      [&] { return Cat(sum(send_bytes), " bytes to send and ", sum(recv_bytes), " to receive"); });
}

void Communicator::Abort(const Status& error) {
  const bool first = !std::exchange(failed_, true);
  if (ops_.abort == nullptr) return;
  reported_ = true;
  if (!first) return;
  LogText(LogLevel::kError,
          [&] { return Cat(rank_name_, " ", ops_.rank, " aborts the communicator: ", error.message()); });
  ops_.abort(ops_.user);
}

Status Communicator::CollectiveError(const char* what, int32_t error, bool captured, const std::string& size) {
  // A caller's function that waits for the stream fails during a capture, before it has exchanged anything. The
  // communicator still works outside of a capture.
  if (captured) {
    return WrongState(
        rank_name_, " ", ops_.rank, ": ", what, " of the communicator returned ", error,
        " while the stream is captured: expected a function that only enqueues work in the stream, such "
        "as those of NCCL. Call shampoo_optimizer_step outside of a capture, or use another communicator");
  }
  Status failure = CommFailed(rank_name_, " ", ops_.rank, ": ", what, " of the communicator returned ", error, " for ",
                              size, ": a collective failed; tear the job down and restart it from a checkpoint");
  Abort(failure);
  return failure;
}

Status Communicator::PriorFailure() const {
  if (!failed_) return {};
  return CommFailed(
      rank_name_, " ", ops_.rank,
      ": a collective or a CUDA call failed before, and parameters may be partly written: tear the job down and "
      "restart it from a checkpoint");
}

bool Communicator::TakeFailureToReport() { return failed_ && !std::exchange(reported_, true); }

Status Communicator::FailTogether(Status failure) {
  failed_ = reported_ = true;
  return failure;
}

}  // namespace shampoo
