// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/device_collectives.h"

#include <numeric>
#include <utility>

#include "core/backend/cuda/host_exchange_bytes.h"

namespace shampoo {

void DeviceCollectives::Begin(bool captured) {
  is_captured_ = captured;
  skipped_ = std::exchange(skips_joined_, false) ? joined_ : 0;
  if (skipped_ == 0) joined_ = 0;
  has_lost_data_ = false;
}

// Calls the function `collective`, which joins the next collective of the step. Does not call it if this rank joined
// that collective when the same step was enqueued before (see SkipJoined()). Returns 0 on success.
template <typename Function>
int32_t DeviceCollectives::Join(const Function& collective) {
  if (skipped_ > 0) {
    --skipped_;
    return 0;
  }
  failure_ = collective();
  if (!failure_.ok()) return 1;
  ++joined_;
  return 0;
}

Status DeviceCollectives::TakeFailure() { return std::exchange(failure_, Status()); }

int32_t DeviceCollectives::Gather(void* self, void* buffer, int64_t segment_bytes, void* stream) {
  auto* const own = static_cast<DeviceCollectives*>(self);
  return own->Join([&] {
    return own->comm_->takes_device_memory()
               ? own->comm_->GatherInStream(buffer, segment_bytes, stream, own->is_captured_)
               : own->GatherThroughHost(static_cast<char*>(buffer), segment_bytes, stream);
  });
}

int32_t DeviceCollectives::AllToAll(void* self, const void* send, const size_t* send_bytes, void* recv,
                                    const size_t* recv_bytes, void* stream) {
  auto* const own = static_cast<DeviceCollectives*>(self);
  const auto world = static_cast<size_t>(own->comm_->world());
  const std::span<const size_t> to(send_bytes, world);
  const std::span<const size_t> from(recv_bytes, world);
  return own->Join([&] {
    return own->comm_->takes_device_memory()
               ? own->comm_->AllToAllInStream(send, to, recv, from, stream, own->is_captured_)
               : own->AllToAllThroughHost(send, to, recv, from, stream);
  });
}

// If the copy to the host fails, this rank does not join the collective, and the communicator can still be used.
Status DeviceCollectives::GatherThroughHost(char* buffer, int64_t segment_bytes, void* stream) {
  const int64_t own = segment_bytes * comm_->rank();
  const cuda::ExchangeMemory memory = engine_->exchange_memory();
  SHAMPOO_RETURN_IF_ERROR(memory.Fetch(own, buffer + own, segment_bytes, stream));
  SHAMPOO_RETURN_IF_ERROR(comm_->GatherInStream(memory.data(), segment_bytes, nullptr));
  Status returned = memory.Return(buffer, 0, segment_bytes * comm_->world(), stream);
  has_lost_data_ = !returned.ok();
  return returned;
}

Status DeviceCollectives::AllToAllThroughHost(const void* send, std::span<const size_t> send_bytes, void* recv,
                                              std::span<const size_t> recv_bytes, void* stream) {
  const auto sum = [](std::span<const size_t> bytes) {
    return static_cast<int64_t>(std::accumulate(bytes.begin(), bytes.end(), size_t{0}));
  };
  const int64_t sent = sum(send_bytes);
  const int64_t received_at = cuda::HostReceiveOffset(sent);
  const cuda::ExchangeMemory memory = engine_->exchange_memory();
  SHAMPOO_RETURN_IF_ERROR(memory.Fetch(0, send, sent, stream));
  SHAMPOO_RETURN_IF_ERROR(comm_->AllToAll(memory.data(), send_bytes, memory.data() + received_at, recv_bytes));
  Status returned = memory.Return(recv, received_at, sum(recv_bytes), stream);
  has_lost_data_ = !returned.ok();
  return returned;
}

}  // namespace shampoo
