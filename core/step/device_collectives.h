// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/backend/cuda/device_engine.h"
#include "core/backend/cuda/interface.h"
#include "core/comm/communicator.h"

namespace shampoo {

// The collectives that the steps of an optimizer on a device make over one communicator. If the communicator takes
// device memory, the collectives are enqueued in the stream. Otherwise the host takes part in each collective:
//
//   device            host
//   work ... copy --> wait -> all_gather or all_to_all
//   work ... <------- copy, enqueued in the stream
class DeviceCollectives {
 public:
  // comm and engine must outlive this object.
  DeviceCollectives(Communicator* comm, const cuda::DeviceEngine* engine) : comm_(comm), engine_(engine) {}
  DeviceCollectives(const DeviceCollectives&) = delete;
  DeviceCollectives& operator=(const DeviceCollectives&) = delete;

  // Call before a step is enqueued. captured: whether the step is captured into a CUDA graph. A capture requires
  // a communicator that takes device memory.
  void Begin(bool captured);
  // gather() and all_to_all() return functions for cuda::StepArgs that make a collective. This object must outlive
  // these functions.
  cuda::DeviceGather gather() { return {this, Gather}; }
  cuda::DeviceAllToAll all_to_all() { return {this, AllToAll}; }
  // Returns the number of collectives that this rank has joined in the step that was enqueued last. A collective whose
  // data could not be copied to the device is not counted; see has_lost_data().
  int64_t joined() const { return joined_; }
  // Returns whether this rank has joined a collective but could not copy the received data to the device.
  bool has_lost_data() const { return has_lost_data_; }
  // Call before Begin() if the same step is enqueued again, only to report an error. The collectives that this rank has
  // already joined are then skipped.
  void SkipJoined() { skips_joined_ = true; }
  // Returns the failure of a collective in the step that was enqueued last, and clears it.
  Status TakeFailure();

 private:
  static int32_t Gather(void* self, void* buffer, int64_t segment_bytes, void* stream);
  static int32_t AllToAll(void* self, const void* send, const size_t* send_bytes, void* recv, const size_t* recv_bytes,
                          void* stream);
  template <typename Function>
  int32_t Join(const Function& collective);
  Status GatherThroughHost(char* buffer, int64_t segment_bytes, void* stream);
  Status AllToAllThroughHost(const void* send, std::span<const size_t> send_bytes, void* recv,
                             std::span<const size_t> recv_bytes, void* stream);

  Communicator* comm_;
  const cuda::DeviceEngine* engine_;
  bool is_captured_ = false;
  int64_t joined_ = 0;
  int64_t skipped_ = 0;        // number of collectives that Join() still has to skip
  bool skips_joined_ = false;  // whether the next Begin() sets skipped_ to joined_
  bool has_lost_data_ = false;
  Status failure_;
};

}  // namespace shampoo
