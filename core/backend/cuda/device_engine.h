// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "core/backend/cuda/device_tables.h"
#include "core/backend/cuda/gather_tables.h"
#include "core/backend/cuda/interface.h"
#include "core/backend/step_phase.h"
#include "core/base/status.h"
#include "core/plan/plan.h"

namespace shampoo::cuda {

// Returns `settings` as DeviceSettings in which no key is bound (DeviceSettings::bound).
inline DeviceSettings DeviceSettingsOf(const GroupSettings& settings) { return {settings, {}}; }

// Pinned host memory of an Engine (interface.h). Steps use it for exchanges over communicators that take host memory.
// Offsets in this memory are in bytes.
class ExchangeMemory {
 public:
  ExchangeMemory(const Table* table, Engine* engine) : table_(table), engine_(engine) {}

  char* data() const { return table_->exchange_memory(engine_); }
  // Copies from device memory to this memory at `offset`, in the order of the stream, and waits for the copy.
  Status Fetch(int64_t offset, const void* from, int64_t bytes, void* stream) const;
  // Copies from this memory at `offset` to device memory, in the order of the stream. Does not wait.
  Status Return(void* to, int64_t offset, int64_t bytes, void* stream) const;

 private:
  const Table* table_;
  Engine* engine_;
};

// Calls the functions of the plugin for async roots that the host computes (root_device=host). The comment of
// HostRootMemory (interface.h) describes the order of the calls.
class HostRootJobs {
 public:
  HostRootJobs(const Table* table, Engine* engine) : table_(table), engine_(engine) {}

  HostRootMemory memory() const { return table_->host_root_memory(engine_); }
  Status Start(const HostRootStart& start, int64_t* job) const;
  Status Begin(int64_t job) const;
  Status Fetch(const std::vector<HostRoot>& roots, int32_t buffer) const;
  Status WaitForFetch(int32_t buffer) const;
  Status Return(const std::vector<HostRoot>& roots) const;
  Status End(int64_t job) const;

 private:
  const Table* table_;
  Engine* engine_;
};

// Owns an Engine of the plugin (interface.h). Most functions call the function of the plugin's Table that has the
// corresponding name, and convert its Result to a Status.
class DeviceEngine {
 public:
  struct Desc {
    int32_t device = 0;
    HostAllocator allocator;
    void* stream = nullptr;       // memory is allocated in the order of this stream
    void* state = nullptr;        // the arena; nullptr: the engine allocates it
    bool shards_agree = false;    // the optimizer has a communicator of the shard ranks
    bool has_all_to_all = false;  // the communicator of the shard ranks has an all-to-all
    // Whether the communicators of the shard ranks and of the replica ranks take host memory.
    bool shards_through_host = false, replicas_through_host = false;
  };
  // Creates an engine. Loads the plugin if it is not loaded yet.
  static Status Create(std::shared_ptr<const PlanData> plan, const Desc& desc, std::unique_ptr<DeviceEngine>* out);
  ~DeviceEngine();
  DeviceEngine(const DeviceEngine&) = delete;
  DeviceEngine& operator=(const DeviceEngine&) = delete;

  char* state() const { return static_cast<char*>(table_->state(engine_)); }
  // See Table::initialize.
  Status Initialize(char* arena, int64_t block, void* stream) const;
  Status IsCapturing(void* stream, bool* captured) const;
  // See Table::await_async_roots.
  Status AwaitAsyncRoots(const std::vector<RootTask>& tasks) const;
  Status Step(const StepArgs& args, int64_t* ticket) const;
  Status Export(const ExportArgs& args) const;
  Status ReadReport(int64_t ticket, StepReport* out) const;
  const RootStatus* roots() const { return table_->roots(engine_); }
  const int64_t* counted_steps() const { return table_->counted_steps(engine_); }
  const int64_t* block_counters() const { return table_->block_counters(engine_); }
  Status ReadBlockCounters(const char* arena, void* stream) const;
  // Download and Upload copy in the order of the stream, and wait for the copy.
  Status Download(void* host, const void* device, int64_t bytes, void* stream) const;
  Status Upload(void* device, const void* host, int64_t bytes, void* stream) const;
  Status RetryRoot(const RootRetry& retry, RootStatus* out) const;
  HostRootJobs host_root_jobs() const { return {table_, engine_}; }
  Status Staging(int64_t bytes, void** out) const;
  ExchangeMemory exchange_memory() const { return {table_, engine_}; }
  double Seconds(StepPhase phase) const { return table_->seconds(engine_)[static_cast<size_t>(phase)]; }
  const uint64_t* parameter_hashes() const { return table_->parameter_hashes(engine_); }

 private:
  DeviceEngine(std::shared_ptr<const PlanData> plan, const Table* table);
  void FindRoundings();
  EngineDesc DescOf(const Desc& desc);

  std::shared_ptr<const PlanData> plan_;
  const Table* table_;
  std::vector<unsigned char> owned_;
  std::vector<ParamOfPlan> params_;
  std::vector<DeviceSettings> groups_;
  std::vector<NewtonSchulz> newton_schulz_;     // by group
  std::vector<DeviceRounding> roundings_;       // by block; empty unless some group rounds stochastically
  std::unique_ptr<const GatherTables> gather_;  // nullptr: no block is gathered
  Engine* engine_ = nullptr;
};

}  // namespace shampoo::cuda
