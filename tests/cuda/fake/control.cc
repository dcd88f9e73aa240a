// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/fake/control.h"

#include <string>

#include "tests/cuda/fake/state.h"

namespace shampoo::cuda_fake {
namespace {

struct Locked {
  std::unique_lock<std::recursive_mutex> lock{TheMutex()};
  State* operator->() const { return &TheState(); }
};

int64_t LiveAllocations(Place place) {
  int64_t count = 0;
  for (const auto& [address, allocation] : TheState().memory.allocations()) {
    if (allocation.place == place && !allocation.leaving) ++count;
  }
  return count;
}

}  // namespace
}  // namespace shampoo::cuda_fake

using namespace shampoo::cuda_fake;

extern "C" {

void fake_cuda_reset(void) {
  const Locked state;
  ResetState();
}

int fake_cuda_is_fake(void) { return 1; }

void fake_cuda_set_order(int order, uint64_t seed) {
  const Locked state;
  state->order = order;
  SetSeed(seed);
}

void fake_cuda_set_query_progress(int operations) { Locked()->query_progress = operations; }

void fake_cuda_set_solver(int mode) {
  const Locked state;
  state->solver = mode;
  state->holder = std::this_thread::get_id();
  NotifyAll();
}

void fake_cuda_wait_for_held_call(void) {
  const Locked state;
  WaitUntil([] { return TheState().held_calls > 0; }, "a call that is held");
}

void fake_cuda_wait_for_jobs(int64_t jobs) {
  const Locked state;
  WaitUntil(
      [jobs] {
        int64_t ended = 0;
        for (const auto& [thread, sections] : TheState().ended_sections) {
          if (thread != std::this_thread::get_id()) ended += sections;
        }
        return ended >= jobs;
      },
      "jobs of other threads");
}

int64_t fake_cuda_progress(int64_t operations) { return Locked()->streams.Progress(operations); }

void fake_cuda_set_protection(int protect) { Locked()->memory.SetProtect(protect != 0); }

void fake_cuda_set_system(int devices, int driver_version, int runtime_version) {
  const Locked state;
  state->devices = devices < Memory::kMaxDevices ? devices : Memory::kMaxDevices;
  state->driver_version = driver_version;
  state->runtime_version = runtime_version;
}

void fake_cuda_set_compute_capability(int device, int major, int minor) {
  Locked()->compute_capabilities[device] = {major, minor};
}

void fake_cuda_set_memory_limit(int64_t bytes) { Locked()->memory_limit = bytes; }

int64_t fake_cuda_calls(const char* function) {
  const Locked state;
  if (function != nullptr) {
    const auto found = state->calls.find(FunctionName(function));
    return found == state->calls.end() ? 0 : found->second;
  }
  int64_t sum = 0;
  for (const auto& [name, count] : state->calls) sum += count;
  return sum;
}

int64_t fake_cuda_count(int kind) {
  const Locked state;
  return kind >= 0 && kind < FAKE_CUDA_KINDS ? state->counts[static_cast<size_t>(kind)] : -1;
}

int64_t fake_cuda_launches_of(const char* part_of_name) {
  const Locked state;
  int64_t sum = 0;
  for (const auto& [name, count] : state->kernels) {
    if (name.find(part_of_name) != std::string::npos) sum += count;
  }
  return sum;
}

void fake_cuda_begin_loading(void) { ++Locked()->loading; }

void fake_cuda_end_loading(void) {
  const Locked state;
  --state->loading;
  state->may_load = false;
}

void fake_cuda_mark(void) {
  const Locked state;
  state->calls.clear();
  state->kernels.clear();
  state->counts.fill(0);
  state->ended_sections.clear();
}

int64_t fake_cuda_live(int object) {
  const Locked state;
  switch (object) {
    case FAKE_CUDA_STREAMS:
      return state->stream_handles.size();
    case FAKE_CUDA_EVENTS:
      return state->events.size();
    case FAKE_CUDA_BLAS_HANDLES:
      return state->blas.size();
    case FAKE_CUDA_SOLVER_HANDLES:
      return state->solvers.size();
    case FAKE_CUDA_SOLVER_PARAMS:
      return state->params.size();
    case FAKE_CUDA_GRAPHS:
      return state->graphs.size();
    case FAKE_CUDA_GRAPH_EXECS:
      return state->graph_execs.size();
    case FAKE_CUDA_DEVICE_ALLOCATIONS:
      return LiveAllocations(Place::kDevice);
    case FAKE_CUDA_HOST_ALLOCATIONS:
      return LiveAllocations(Place::kPinned);
    case FAKE_CUDA_DEVICE_BYTES: {
      size_t bytes = 0;
      for (int device = 0; device < Memory::kMaxDevices; ++device) bytes += state->memory.live_bytes(device);
      return static_cast<int64_t>(bytes);
    }
    case FAKE_CUDA_PENDING_OPERATIONS:
      return state->streams.pending();
    default:
      return -1;
  }
}

int64_t fake_cuda_streams_of_priority(int priority) { return Locked()->streams.CountOfPriority(priority); }

const char* fake_cuda_leaks(void) {
  static const char* const kNames[] = {"streams",
                                       "events",
                                       "cuBLAS handles",
                                       "cuSOLVER handles",
                                       "cuSOLVER parameters",
                                       "graphs",
                                       "executable graphs",
                                       "device allocations",
                                       "pinned allocations"};
  static std::string text;
  const Locked state;
  text.clear();
  for (int object = FAKE_CUDA_STREAMS; object <= FAKE_CUDA_HOST_ALLOCATIONS; ++object) {
    const int64_t count = fake_cuda_live(object);
    if (count != 0) text += std::to_string(count) + " " + kNames[object] + "\n";
  }
  for (const auto& [address, allocation] : state->memory.allocations()) {
    if (!allocation.leaving) text += "  of " + std::to_string(allocation.bytes) + " bytes\n";
  }
  return text.c_str();
}

const char* fake_cuda_problems(void) {
  static std::string text;
  const Locked state;
  state->memory.CheckGuards();
  text.clear();
  for (const std::string& problem : state->memory.problems()) text += problem + "\n";
  return text.c_str();
}

void fake_cuda_clear_problems(void) { Locked()->memory.problems().clear(); }

int fake_cuda_in_call(void) { return Call::IsInside() ? 1 : 0; }

int fake_cuda_check_collective(const void* data, size_t bytes) {
  const Locked state;
  const Allocation* const allocation = state->memory.Find(data);
  std::string why = "it is not device memory";
  if (allocation != nullptr && state->memory.Accessible(allocation->device, data, bytes, &why)) {
    if (allocation->place == Place::kDevice && !allocation->pooled) return 1;
    if (allocation->pooled) why = "it comes from a stream-ordered pool";
  }
  state->Problem("other devices cannot access the memory of a collective: " + why);
  return 0;
}

void fake_cuda_fail(const char* function, int64_t nth, int code) {
  Locked()->planned.push_back({function != nullptr ? FunctionName(function) : "", "", nth, false, code});
}

void fake_cuda_fail_always(const char* function, int code) {
  Locked()->planned.push_back({FunctionName(function), "", 1, false, code, {}, {}, true});
}

void fake_cuda_limit_eigen_batches(int64_t matrices) { Locked()->max_eigen_matrices = matrices; }

const char* fake_cuda_last_failed(void) {
  static std::string name;
  name = Locked()->last_failed;
  return name.c_str();
}

void fake_cuda_fail_here(const char* function, int64_t nth, int code) {
  const std::string name = function != nullptr ? FunctionName(function) : "";
  Locked()->planned.push_back({name, "", nth, false, code, std::this_thread::get_id()});
}

void fake_cuda_fail_elsewhere(const char* function, int64_t nth, int code) {
  const std::string name = function != nullptr ? FunctionName(function) : "";
  Locked()->planned.push_back({name, "", nth, false, code, {}, std::this_thread::get_id()});
}

void fake_cuda_skip(const char* function, int64_t nth) {
  Locked()->planned.push_back({FunctionName(function), "", nth, true, 0});
}

void fake_cuda_skip_launch(const char* part_of_name, int64_t nth) {
  Locked()->planned.push_back({"Launch", part_of_name != nullptr ? part_of_name : "", nth, true, 0});
}

int64_t fake_cuda_cancel_failures(void) {
  const Locked state;
  const size_t count = state->planned.size() + state->planned_eigen.size();
  state->planned.clear();
  state->planned_eigen.clear();
  return static_cast<int64_t>(count);
}

void fake_cuda_fault(int code) { Locked()->fault = static_cast<cudaError_t>(code); }

void fake_cuda_fail_eigen(int64_t nth, int64_t matrix, int how, int info) {
  Locked()->planned_eigen.push_back({nth, matrix, how, info});
}

}  // extern "C"
