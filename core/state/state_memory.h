// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/device_type.h"
#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/config/settings.h"
#include "core/plan/block.h"

namespace shampoo {

// The memory that holds arenas: host memory or device memory.
class StateMemory {
 public:
  virtual ~StateMemory() = default;

  // Return the arena with which the optimizer was created, and whether the library allocated this arena. If not, the
  // caller owns it.
  virtual char* arena() const = 0;
  virtual bool allocated_arena() const = 0;

  // Sets the stream of the calls that follow. Has no effect on the host.
  virtual void UseStream(void* stream) = 0;
  // Check arguments of the caller. CheckStream() checks a stream. CheckBuffer() checks the device type of a buffer;
  // name: the name of the argument that specifies this type.
  virtual Status CheckStream(const void* stream) const = 0;
  virtual Status CheckBuffer(const char* name, DeviceType buffer) const = 0;
  // Fails while the stream is being captured into a CUDA graph, because memory cannot be read during a capture. what:
  // the subject of the error message, such as "the state of the averages".
  virtual Status CheckReadable(const std::string& what) const = 0;

  // Sets the step counters and all states of this rank's blocks to their values before the first step.
  virtual Status Initialize(char* arena) = 0;
  // Sets the factor matrices of one block, and its other states that are not elementwise, to their values before the
  // first step. settings: the settings of the block's group.
  virtual Status InitializeFactors(const Block& block, const Settings& settings, char* arena) = 0;

  // Copy between the host and this memory.
  virtual Status Download(void* to, const void* from, int64_t bytes) const = 0;
  virtual Status Upload(void* to, const void* from, int64_t bytes) const = 0;
  // Sets *mapped to an address at which the host can read and write the bytes that begin at `from`. This is `from`
  // itself or, if the host cannot access this memory, a copy in *copy. To store changes, call Upload() with *mapped as
  // the source.
  virtual Status Map(char* from, int64_t bytes, std::vector<char>* copy, char** mapped) const = 0;

  // Returns the device memory through which host buffers are exchanged over a communicator that takes only memory of
  // this device. Returns nullptr on the host.
  virtual std::unique_ptr<Staging> MakeStaging(void* stream) const = 0;
};

}  // namespace shampoo
