// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/device_collectives.h"

#include <numeric>
#include <utility>

#include "core/backend/cuda/host_exchange_bytes.h"

namespace shampoo {

void DeviceCollectives::Begin(bool captured) {
  is_captured_ = captured;
  has_begun_ = false;
}

Status DeviceCollectives::TakeFailure() { return std::exchange(failure_, Status()); }

int32_t DeviceCollectives::Gather(void* self, void* buffer, int64_t segment_bytes, void* stream) {
  auto* const own = static_cast<DeviceCollectives*>(self);
  if (own->comm_->takes_device_memory()) {
    own->has_begun_ = true;
    own->failure_ = own->comm_->GatherInStream(buffer, segment_bytes, stream, own->is_captured_);
  } else {
    own->failure_ = own->GatherThroughHost(static_cast<char*>(buffer), segment_bytes, stream);
  }
  return own->failure_.ok() ? 0 : 1;
}

int32_t DeviceCollectives::AllToAll(void* self, const void* send, const size_t* send_bytes, void* recv,
                                    const size_t* recv_bytes, void* stream) {
  auto* const own = static_cast<DeviceCollectives*>(self);
  const auto world = static_cast<size_t>(own->comm_->world());
  const std::span<const size_t> to(send_bytes, world);
  const std::span<const size_t> from(recv_bytes, world);
  if (own->comm_->takes_device_memory()) {
    own->has_begun_ = true;
    own->failure_ = own->comm_->AllToAllInStream(send, to, recv, from, stream, own->is_captured_);
  } else {
    own->failure_ = own->AllToAllThroughHost(send, to, recv, from, stream);
  }
  return own->failure_.ok() ? 0 : 1;
}

// If the copy to the host fails, this rank has not joined the collective, and the communicator can still be used.
Status DeviceCollectives::GatherThroughHost(char* buffer, int64_t segment_bytes, void* stream) {
  const int64_t own = segment_bytes * comm_->rank();
  const cuda::ExchangeMemory memory = engine_->exchange_memory();
  SHAMPOO_RETURN_IF_ERROR(memory.Fetch(own, buffer + own, segment_bytes, stream));
  has_begun_ = true;
  SHAMPOO_RETURN_IF_ERROR(comm_->GatherInStream(memory.data(), segment_bytes, nullptr));
  return memory.Return(buffer, 0, segment_bytes * comm_->world(), stream);
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
  has_begun_ = true;
  SHAMPOO_RETURN_IF_ERROR(comm_->AllToAll(memory.data(), send_bytes, memory.data() + received_at, recv_bytes));
  return memory.Return(recv, received_at, sum(recv_bytes), stream);
}

}  // namespace shampoo
