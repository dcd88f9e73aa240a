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
#include "core/plan/block.h"

namespace shampoo {

// The memory in which arenas lie: that of the host, or that of a device.
class StateMemory {
 public:
  virtual ~StateMemory() = default;

  // The arena of create, and whether it was allocated there. Otherwise it is the caller's.
  virtual char* arena() const = 0;
  virtual bool allocated_arena() const = 0;

  // Sets the stream of the calls that follow. The host has none.
  virtual void UseStream(void* stream) = 0;
  // Checks arguments of the caller: a stream, and where a buffer lies.
  virtual Status CheckStream(const void* stream) const = 0;
  virtual Status CheckBuffer(DeviceType buffer) const = 0;
  // Fails while the stream is being captured, when nothing can be read; `what` names what was asked for.
  virtual Status CheckReadable(const std::string& what) const = 0;

  // Sets all states of this rank's blocks, and the step counters, as before the first step.
  virtual Status Initialize(char* arena) = 0;
  // Sets the factor matrices of one block, their inverse roots and diagonal flags as before its first step.
  virtual Status InitializeFactors(const Block& block, InitialInverse initial, char* arena) = 0;

  // Copies between the host and this memory.
  virtual Status Download(void* to, const void* from, int64_t bytes) const = 0;
  virtual Status Upload(void* to, const void* from, int64_t bytes) const = 0;
  // Returns in *mapped where the host can read and write these bytes: their own place, or a copy in *copy. Upload() of
  // *mapped stores what was changed there.
  virtual Status Map(char* from, int64_t bytes, std::vector<char>* copy, char** mapped) const = 0;

  // Returns memory for exchanges over a communicator that takes memory of this device; nullptr on the host.
  virtual std::unique_ptr<Staging> MakeStaging(void* stream) const = 0;
};

}  // namespace shampoo
