// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/comm/communicator.h"

#include <utility>

namespace shampoo {

Status Communicator::Create(const CommOps& ops, std::shared_ptr<Communicator>* out) {
  if (ops.all_gather == nullptr) return Invalid("ops.all_gather is NULL: expected a function");
  constexpr int kMostRanks = 1 << 20;
  if (ops.world < 1 || ops.world > kMostRanks) {
    return Invalid("ops.world is ", ops.world, ": expected at least 1, and at most ", kMostRanks);
  }
  if (ops.rank < 0 || ops.rank >= ops.world) {
    return Invalid("ops.rank is ", ops.rank, ": expected 0 to ", ops.world - 1, " as ops.world is ", ops.world);
  }
  // The functions last: what was never complete must not release what is the caller's.
  std::shared_ptr<Communicator> made(new Communicator);
  made->ops_ = ops;
  *out = std::move(made);
  return {};
}

Communicator::~Communicator() {
  if (ops_.release != nullptr) ops_.release(ops_.user);
}

Status Communicator::GatherInPlace(void* buffer, int64_t segment_bytes) {
  const char* what = "async_error";
  int32_t error = ops_.async_error != nullptr ? ops_.async_error(ops_.user) : 0;
  if (error == 0) {
    what = "all_gather";
    const char* const own = static_cast<const char*>(buffer) + ops_.rank * segment_bytes;
    error = ops_.all_gather(ops_.user, own, buffer, static_cast<size_t>(segment_bytes), nullptr);
  }
  if (error == 0) return {};
  const bool first = !failed_;
  failed_ = true;
  if (ops_.abort != nullptr) {
    told_ = true;
    if (first) ops_.abort(ops_.user);
  }
  return CommFailed(who_, " ", ops_.rank, ": ", what, " of the communicator returned ", error, " for segments of ",
                    segment_bytes,
                    " bytes: a collective failed; tear the job down and start it anew from a checkpoint");
}

Status Communicator::FailedBefore() const {
  return CommFailed(who_, " ", ops_.rank,
                    ": a collective failed before, and parameters may be partly written since: tear the job down and "
                    "start it anew from a checkpoint");
}

bool Communicator::TakeFailureToTell() { return failed_ && !std::exchange(told_, true); }

Status Communicator::FailTogether(Status failure) {
  failed_ = told_ = true;
  return failure;
}

}  // namespace shampoo
