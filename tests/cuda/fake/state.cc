// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/fake/state.h"

#include <chrono>
#include <condition_variable>
#include <string_view>

namespace shampoo::cuda_fake {
namespace {

uint64_t random_state = 1;
// The object is not destroyed when the program exits, because threads may end after main.
State*& StatePointer() {
  static State* state = new State;
  return state;
}

cudaError_t SystemError(const State& state) {
  if (state.driver_version / 1000 < state.runtime_version / 1000) return cudaErrorInsufficientDriver;
  return state.devices == 0 ? cudaErrorNoDevice : cudaSuccess;
}

}  // namespace

State& TheState() { return *StatePointer(); }

void ResetState() {
  delete StatePointer();
  StatePointer() = new State;
  LastError() = cudaSuccess;
  CurrentDevice() = 0;
}

std::recursive_mutex& TheMutex() {
  static auto* const mutex = new std::recursive_mutex;
  return *mutex;
}

namespace {
std::condition_variable_any& TheChange() {
  static auto* const change = new std::condition_variable_any;
  return *change;
}
}  // namespace

void WaitUntil(const std::function<bool()>& is_done, const char* what) {
  constexpr std::chrono::minutes kLimit{1};
  if (!TheChange().wait_for(TheMutex(), kLimit, is_done))
    TheState().Problem(std::string("waited too long for ") + what);
}

void NotifyAll() { TheChange().notify_all(); }

void WaitWhileHeld() {
  const std::unique_lock<std::recursive_mutex> lock(TheMutex());
  if (TheState().solver != FAKE_CUDA_SOLVER_IS_HELD) return;
  ++TheState().held_calls;
  NotifyAll();
  WaitUntil([] { return TheState().solver != FAKE_CUDA_SOLVER_IS_HELD; }, "the end of a hold");
  --TheState().held_calls;
  if (TheState().solver == FAKE_CUDA_SOLVER_IS_HELD) TheState().solver = FAKE_CUDA_SOLVER_ENQUEUES;
}

// Splitmix64.
uint64_t NextRandom() {
  random_state += 0x9e3779b97f4a7c15;
  uint64_t z = random_state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

void SetSeed(uint64_t seed) { random_state = seed; }

int& CurrentDevice() {
  static thread_local int device = 0;
  return device;
}

cudaStreamCaptureMode& ThreadCaptureMode() {
  static thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  return mode;
}

cudaError_t& LastError() {
  static thread_local cudaError_t error = cudaSuccess;
  return error;
}

std::string FunctionName(const char* name) {
  std::string_view view(name);
  if (view.size() > 3 && view.substr(view.size() - 3) == "_v2") view.remove_suffix(3);
  return std::string(view);
}

void State::Fault(const std::string& what) {
  Problem("illegal address: " + what);
  if (fault == cudaSuccess) fault = cudaErrorIllegalAddress;
}

bool State::Load(int device, const std::string& kernel) {
  if (IsLoaded(device, kernel)) return true;
  if (loading == 0 && !may_load) {
    Problem("device " + std::to_string(device) + " may be running a collective when " + kernel + " is loaded");
    return false;
  }
  loaded.emplace(device, kernel);
  ++counts[FAKE_CUDA_LOADS];
  return true;
}

bool State::Check(int device, const void* address, size_t bytes, const char* what) {
  std::string why;
  if (memory.Accessible(device, address, bytes, &why)) return true;
  Fault(std::string(what) + ": " + why);
  return false;
}

namespace {
thread_local int depth_of_calls = 0;
}  // namespace

CallScope::CallScope() { ++depth_of_calls; }
CallScope::~CallScope() { --depth_of_calls; }
bool Call::IsInside() { return depth_of_calls > 0; }

Call::Call(const char* function, unsigned flags, const char* kernel) : lock_(TheMutex()) {
  State& state = TheState();
  const std::string name = FunctionName(function);
  ++state.calls[name];
  if ((flags & kSynchronizes) != 0) ++state.counts[FAKE_CUDA_SYNCHRONIZATIONS];
  if ((flags & kQuery) != 0) ++state.counts[FAKE_CUDA_QUERIES];
  for (size_t i = 0; i < state.planned.size(); ++i) {
    PlannedCall& planned = state.planned[i];
    if (planned.thread != std::thread::id() && planned.thread != std::this_thread::get_id()) continue;
    if (planned.excluded_thread == std::this_thread::get_id()) continue;
    if (planned.function.empty() ? (flags & kReleases) != 0 : planned.function != name) continue;
    if (!planned.kernel.empty() &&
        (kernel == nullptr || std::string_view(kernel).find(planned.kernel) == std::string_view::npos)) {
      continue;
    }
    if (over_ || --planned.calls_left > 0) continue;
    over_ = true;
    own_code_ = planned.skip || !planned.function.empty();
    code_ = planned.skip ? 0 : planned.code;
    state.last_failed = name;
    if (planned.repeats) continue;
    state.planned.erase(state.planned.begin() + static_cast<std::ptrdiff_t>(i--));
  }
  // If a failure is injected into a call that waits, the call still waits: pending work runs before the call fails.
  if (over_ && code_ != 0 && (flags & kSynchronizes) != 0) state.streams.FinishDevice(CurrentDevice());
  if (over_) return;
  code_ = (flags & kNoDevice) != 0 ? cudaSuccess : SystemError(state);
  if (code_ == cudaSuccess && (flags & (kNoDevice | kReleases)) == 0) code_ = state.fault;
  if (code_ == cudaSuccess && (flags & kUnsafe) != 0 &&
      state.streams.InvalidateForUnsafeCall((flags & kWaitsForDevice) != 0)) {
    code_ = cudaErrorStreamCaptureUnsupported;
  }
  over_ = code_ != cudaSuccess;
}

cudaError_t Call::Cuda(cudaError_t error) {
  if (error != cudaSuccess) LastError() = error;
  return error;
}

cublasStatus_t Call::Blas() const {
  if (own_code_ || code_ == 0) return static_cast<cublasStatus_t>(code_);
  return code_ == cudaErrorMemoryAllocation ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_EXECUTION_FAILED;
}

cusolverStatus_t Call::Solver() const {
  if (own_code_ || code_ == 0) return static_cast<cusolverStatus_t>(code_);
  return code_ == cudaErrorMemoryAllocation ? CUSOLVER_STATUS_ALLOC_FAILED : CUSOLVER_STATUS_EXECUTION_FAILED;
}

std::shared_ptr<Stream> Call::StreamOf(cudaStream_t handle, int device) {
  State& state = TheState();
  if (handle == nullptr || handle == cudaStreamLegacy) return state.streams.Legacy(device);
  if (handle == cudaStreamPerThread) {
    static thread_local std::map<int, std::weak_ptr<Stream>> own;
    std::shared_ptr<Stream> stream = own[device].lock();
    if (stream == nullptr) own[device] = stream = state.streams.Create(device, true);
    return stream;
  }
  return state.stream_handles.Find(handle);
}

}  // namespace shampoo::cuda_fake
