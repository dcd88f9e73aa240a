// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/cpu/slot_memory.h"
#include "core/backend/cuda/device_state_memory.h"
#include "core/backend/cuda/loader.h"
#include "core/plan/memory_layout.h"
#include "core/rules/schedule.h"
#include "tests/core/fake_host_roots.h"

namespace shampoo {

// A fake CUDA plugin with one device. It replaces libshampoo_cuda.so in tests of the code of libshampoo.so that calls
// the plugin. The device computes nothing: it records the steps that it receives, and counts steps and rejections in
// the report that it returns (`report`). A test may change this report. Memory of the device is host memory.
class FakeDevice {
 public:
  // The recorded arguments of a step; see cuda::StepArgs.
  struct Step {
    std::vector<int64_t> expected_step;
    std::vector<RootTask> tasks;
    std::vector<const void*> bound_lr;  // by group
    bool buffers_changed = false;
    bool captured = false;
    bool again = false;
    bool exports = false;
    double blend = 0;
    std::vector<Buffers> buffers;  // by parameter
    Code failure = Code::kOk;
    int64_t place = 0;
    int64_t shard_place = 0;
  };

  // Returns the device of the process, reset to its initial state.
  static FakeDevice& Reset() {
    static FakeDevice* const device = Load();
    *device = FakeDevice();
    return *device;
  }

  std::vector<Step> steps;
  cuda::StepReport report{};
  std::vector<cuda::RootStatus> roots;
  std::vector<int64_t> block_counters;
  std::vector<int64_t> counted_steps;  // by group
  // Whether streams are being captured into a CUDA graph.
  bool captures = false;
  std::vector<cuda::RetryMethod> retries;
  int successful_retry = 0;  // the number of the retry that succeeds, counted from 1; if it is 0, all retries fail
  // If `rejection` is set, the device rejects the next step that is not captured, and resets `rejection`. If a step is
  // not rejected, does not fail, and is neither captured nor an export, the device counts it in `report`, and writes
  // the new step counters of the groups to the arena.
  struct Rejection {
    cuda::Rejection rejection;
    double value = 0;
    cuda::RankDifference difference = cuda::RankDifference::kNone;
    bool among_shards = false;
  };
  std::optional<Rejection> rejection;
  // The point at which the next step fails. 0: before its collectives. 1: after the collective of the shard ranks. 2:
  // after all of its collectives. -1: the step does not fail.
  int fails_at = -1;
  std::vector<cuda::ExportArgs> exports;
  // The messages with which functions of cuda::Table fail. An empty message causes no failure.
  std::string fails;                    // of `step`
  std::string capture_error;            // of `is_capturing` and `read_report`
  std::string download_error;           // of `download`
  std::string root_error;               // of `await_async_roots`, which fails once
  std::string exchange_error;           // of `fetch_exchange` and `return_exchange`
  std::vector<void*> exchange_streams;  // the streams of all calls of these two functions
  int64_t last_ticket = 0;              // the ticket (number) of the last step that `step` enqueued, except exports
  int64_t last_export = 0;              // the ticket of the last export that `step` enqueued, a negative number
  int64_t awaited = 0;                  // the ticket for which the last call of read_report waited
  // Returns the segments of all ranks in the last collective that a step made.
  const std::vector<char>& exchanged() const { return exchange_; }
  static constexpr char kSent = 7;  // the value of all bytes that this rank sends

 private:
  static FakeDevice& Of(cuda::Engine* engine) { return *reinterpret_cast<FakeDevice*>(engine); }
  static cuda::Result Ok() { return {Code::kOk, nullptr}; }
  static cuda::Result Copy(void* to, const void* from, int64_t bytes) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return Ok();
  }

  static FakeDevice* Load() {
    static FakeDevice device;
    static cuda::Table table = MakeTable();
    void* const library = dlopen(SHAMPOO_FAKE_PLUGIN, RTLD_NOW);
    REQUIRE_MESSAGE(library != nullptr, dlerror());
    reinterpret_cast<void (*)(const cuda::Table*)>(dlsym(library, "SetFakeTable"))(&table);
    REQUIRE(cuda::LoadPlugin(SHAMPOO_FAKE_PLUGIN).ok());
    the_device = &device;
    return &device;
  }

  static cuda::Table MakeTable() {
    cuda::Table table{};
    table.interface_number = cuda::kInterface;
    table.block_bytes = sizeof(Block);
    table.settings_bytes = sizeof(cuda::DeviceSettings);
    table.args_bytes = sizeof(cuda::StepArgs);
    table.report_bytes = sizeof(cuda::StepReport);
    table.describe = [](cuda::Description* out) {
      *out = {};
      out->device_count = 1;
      out->driver_version = out->runtime_version = 13000;
    };
    table.create = [](const cuda::EngineDesc* desc, cuda::Engine** out) {
      the_device->arena_.assign(static_cast<size_t>(desc->plan.state_bytes + kArenaAlignment), 0);
      the_device->groups_ = static_cast<size_t>(desc->plan.group_count);
      the_device->blocks_ = static_cast<size_t>(desc->plan.block_count);
      the_device->params_ = static_cast<size_t>(desc->plan.param_count);
      the_device->world_ = desc->plan.replica_world;
      the_device->shard_world_ = desc->plan.shard_world;
      the_device->shard_bytes_ = desc->plan.shard_segment_bytes;
      the_device->group_of_block_.clear();
      for (int64_t b = 0; b < desc->plan.block_count; ++b) {
        the_device->group_of_block_.push_back(static_cast<size_t>(desc->plan.blocks[b].group));
      }
      the_device->block_counters.resize(the_device->blocks_);
      the_device->roots.resize(the_device->blocks_ * kMaxDims);
      the_device->host_exchange_.resize(static_cast<size_t>(desc->host_exchange_bytes));
      *out = reinterpret_cast<cuda::Engine*>(the_device);
      return Ok();
    };
    table.destroy = [](cuda::Engine*) {};
    table.state = [](cuda::Engine* engine) -> void* {
      char* const start = Of(engine).arena_.data();
      const auto misalignment = reinterpret_cast<uintptr_t>(start) % kArenaAlignment;
      return start + (misalignment == 0 ? 0 : kArenaAlignment - static_cast<int64_t>(misalignment));
    };
    table.initialize = [](cuda::Engine*, void*, int64_t, void*) { return Ok(); };
    table.await_async_roots = [](cuda::Engine* engine, const RootTask*) { return Of(engine).TakeRootError(); };
    table.step = [](cuda::Engine* engine, const cuda::StepArgs* args, int64_t* ticket) {
      return Of(engine).Enqueue(*args, ticket);
    };
    table.export_averages = [](cuda::Engine* engine, const cuda::ExportArgs* args) {
      Of(engine).exports.push_back(*args);
      return Ok();
    };
    table.is_capturing = [](cuda::Engine* engine, void*, int32_t* captured) {
      *captured = Of(engine).captures ? 1 : 0;
      return Of(engine).CaptureResult();
    };
    table.read_report = [](cuda::Engine* engine, int64_t ticket, cuda::StepReport* out) {
      Of(engine).awaited = ticket;
      *out = Of(engine).report;
      return Of(engine).CaptureResult();
    };
    table.roots = [](cuda::Engine* engine) -> const cuda::RootStatus* { return Of(engine).roots.data(); };
    table.counted_steps = [](cuda::Engine* engine) -> const int64_t* { return Of(engine).counted_steps.data(); };
    table.block_counters = [](cuda::Engine* engine) -> const int64_t* { return Of(engine).block_counters.data(); };
    table.read_block_counters = [](cuda::Engine*, const void*, void*) { return Ok(); };
    table.download = [](cuda::Engine* engine, void* to, const void* from, int64_t bytes, void*) {
      const std::string& error = Of(engine).download_error;
      return error.empty() ? Copy(to, from, bytes) : cuda::Result{Code::kDevice, error.c_str()};
    };
    table.upload = [](cuda::Engine*, void* to, const void* from, int64_t bytes, void*) {
      return Copy(to, from, bytes);
    };
    // Fills the root with 0.125 if this retry is to succeed (successful_retry); otherwise reports a failure of the
    // solver.
    table.retry_root = [](cuda::Engine* engine, const cuda::RootRetry* retry, cuda::RootStatus* out) {
      FakeDevice& device = Of(engine);
      device.retries.push_back(retry->how);
      *out = {};
      out->failure = RootFailure::kSolver;
      if (device.successful_retry != static_cast<int>(device.retries.size())) return Ok();
      out->failure = RootFailure::kNone;
      out->kind = RootKind::kNewton;
      std::fill_n(static_cast<float*>(retry->matrix), retry->n * retry->n, 0.125F);
      return Ok();
    };
    table.staging = [](cuda::Engine* engine, int64_t bytes, void** out) {
      std::vector<char>& staging = Of(engine).staging_;
      if (static_cast<int64_t>(staging.size()) < bytes) staging.resize(static_cast<size_t>(bytes));
      *out = staging.data();
      return Ok();
    };
    table.exchange_memory = [](cuda::Engine* engine) { return Of(engine).host_exchange_.data(); };
    table.fetch_exchange = [](cuda::Engine* engine, int64_t offset, const void* from, int64_t bytes, void* stream) {
      return Of(engine).CopyExchange(Of(engine).host_exchange_.data() + offset, from, bytes, stream);
    };
    table.return_exchange = [](cuda::Engine* engine, void* to, int64_t offset, int64_t bytes, void* stream) {
      return Of(engine).CopyExchange(to, Of(engine).host_exchange_.data() + offset, bytes, stream);
    };
    FakeHostRoots::AddTo(&table);
    return table;
  }

  cuda::Result CaptureResult() const {
    return capture_error.empty() ? Ok() : cuda::Result{Code::kState, capture_error.c_str()};
  }
  bool FailsAt(int place) { return fails_at == place && std::exchange(fails_at, -1) == place; }

  bool Gather(const cuda::DeviceGather& with, int64_t segment_bytes, int32_t world, void* stream) {
    if (with.gather == nullptr) return true;
    exchange_.assign(static_cast<size_t>(segment_bytes * world), 0);
    std::fill_n(exchange_.begin(), segment_bytes, kSent);  // this rank is the first
    return with.gather(with.user, exchange_.data(), segment_bytes, stream) == 0;
  }

  cuda::Result CopyExchange(void* to, const void* from, int64_t bytes, void* stream) {
    exchange_streams.push_back(stream);
    return exchange_error.empty() ? Copy(to, from, bytes) : cuda::Result{Code::kDevice, exchange_error.c_str()};
  }

  cuda::Result TakeRootError() {
    if (root_error.empty()) return Ok();
    text_ = std::exchange(root_error, {});
    return {Code::kDevice, text_.c_str()};
  }

  cuda::Result Enqueue(const cuda::StepArgs& args, int64_t* ticket) {
    if (!fails.empty()) return {Code::kDevice, fails.c_str()};
    Step& step = steps.emplace_back();
    step.expected_step.assign(args.expected_step, args.expected_step + groups_);
    step.tasks.assign(args.tasks, args.tasks + blocks_);
    for (size_t g = 0; g < groups_; ++g) step.bound_lr.push_back(args.groups[g].bound[BindableKey("lr")].value);
    step.buffers_changed = args.buffers_changed != 0;
    step.captured = args.captured != 0;
    step.again = args.again != 0;
    step.exports = args.exports != 0;
    step.blend = args.blend;
    step.buffers.assign(args.buffers, args.buffers + params_);
    step.failure = args.failure;
    step.place = args.place;
    step.shard_place = args.shard_place;
    const cuda::Result cuda_error = {Code::kDevice, "a CUDA call failed"};
    if (FailsAt(0)) return cuda_error;
    bool is_exchanged = Gather(args.shard_gather, shard_bytes_, shard_world_, args.stream);
    if (is_exchanged && FailsAt(1)) return cuda_error;
    is_exchanged = is_exchanged && Gather(args.gather, kExchangeBytes, world_, args.stream);
    if (!is_exchanged) return {Code::kComm, "the collective of the step failed"};
    if (FailsAt(2)) return cuda_error;
    int64_t& last = step.exports ? last_export : last_ticket;
    *ticket = last += step.exports ? -1 : 1;
    if (args.captured != 0) return Ok();
    if (rejection) {
      ++report.rejections;
      report.rejected_ticket = *ticket;
      report.rejection = rejection->rejection;
      report.value = rejection->value;
      report.difference = rejection->difference;
      report.among_shards = rejection->among_shards ? 1 : 0;
      report.rank = 1;
      rejection.reset();
      return Ok();
    }
    if (step.exports) return Ok();
    ++report.steps;
    for (size_t g = 0; g < groups_; ++g) {
      if (args.expected_step[g] != 0) static_cast<int64_t*>(args.state_out)[g] = args.expected_step[g];
    }
    for (size_t b = 0; b < blocks_; ++b) {
      const int64_t number = args.expected_step[group_of_block_[b]];
      block_counters[b] = SnapshotStepAfter(args.tasks[b], args.block_counters[b], number);
    }
    return Ok();
  }

  static constexpr size_t kExchangeBytes = 64;
  static inline FakeDevice* the_device = nullptr;
  std::vector<char> arena_;
  std::vector<char> staging_;
  std::vector<char> exchange_;
  std::vector<char> host_exchange_;
  std::string text_;
  int32_t shard_world_ = 1;
  int64_t shard_bytes_ = 0;
  int32_t world_ = 1;
  size_t groups_ = 0;
  size_t blocks_ = 0;
  size_t params_ = 0;
  std::vector<size_t> group_of_block_;
};

}  // namespace shampoo
