// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/backend/cuda/device_engine.h"
#include "core/comm/communicator.h"
#include "core/state/state_memory.h"

namespace shampoo::cuda {

// Device memory for exchanges between ranks. Copies to and from this memory are made in the order of `stream`.
class DeviceStaging final : public Staging {
 public:
  DeviceStaging(const DeviceEngine* engine, void* stream) : engine_(engine), stream_(stream) {}
  Status Memory(int64_t bytes, char** memory) override;
  Status ToDevice(void* to, const void* from, int64_t bytes) override;
  Status ToHost(void* to, const void* from, int64_t bytes) override;
  void* stream() const override { return stream_; }

 private:
  const DeviceEngine* engine_;
  void* stream_;
};

// Reads and writes arenas in device memory, in the order of the stream that the last UseStream() has set.
class DeviceStateMemory final : public StateMemory {
 public:
  // arena: memory of the caller; nullptr: the arena of the engine is used. stream: used until the first UseStream().
  DeviceStateMemory(const PlanData& plan, std::shared_ptr<const DeviceEngine> engine, void* arena, void* stream);

  void* stream() const { return stream_; }
  const DeviceEngine& engine() const { return *engine_; }

  char* arena() const override { return arena_; }
  bool allocated_arena() const override { return allocated_; }
  void UseStream(void* stream) override { stream_ = stream; }
  Status CheckStream(const void* stream) const override;
  Status CheckBuffer(const char* name, DeviceType buffer) const override;
  Status CheckReadable(const std::string& what) const override;
  Status Initialize(char* arena) override;
  Status InitializeFactors(const Block& block, const Settings& settings, char* arena) override;
  Status Download(void* to, const void* from, int64_t bytes) const override;
  Status Upload(void* to, const void* from, int64_t bytes) const override;
  Status Map(char* from, int64_t bytes, std::vector<char>* copy, char** mapped) const override;
  std::unique_ptr<Staging> MakeStaging(void* stream) const override;

 private:
  const PlanData& plan_;
  std::shared_ptr<const DeviceEngine> engine_;
  bool allocated_;
  char* arena_;
  void* stream_;
};

}  // namespace shampoo::cuda
