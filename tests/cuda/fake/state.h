// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusolverDn.h>

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/cuda/fake/call_scope.h"
#include "tests/cuda/fake/control.h"
#include "tests/cuda/fake/memory.h"
#include "tests/cuda/fake/streams.h"

namespace shampoo::cuda_fake {

// Objects behind handles. A handle is an address that cannot be read. No address is used twice before the next reset.
template <typename Handle, typename Object>
class Handles {
 public:
  explicit Handles(uint64_t kind) : next_((uint64_t{0xd0} + kind) << 56) {}
  Handle Add(std::shared_ptr<Object> object) {
    next_ += 16;
    objects_[next_] = std::move(object);
    return reinterpret_cast<Handle>(next_);
  }
  std::shared_ptr<Object> Find(Handle handle) const {
    const auto found = objects_.find(reinterpret_cast<uint64_t>(handle));
    return found == objects_.end() ? nullptr : found->second;
  }
  bool Remove(Handle handle) { return objects_.erase(reinterpret_cast<uint64_t>(handle)) != 0; }
  int64_t size() const { return static_cast<int64_t>(objects_.size()); }

 private:
  uint64_t next_;
  std::unordered_map<uint64_t, std::shared_ptr<Object>> objects_;
};

struct BlasHandle {
  int device;
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
};

struct SolverHandle {
  int device;
  cudaStream_t stream = nullptr;
  bool deterministic = false;
};

struct SolverParams {
  bool is_jacobi;
  bool sorted = true;
  bool one_algorithm = CUDART_VERSION < 13000;  // versions of CUDA before 13 have only one algorithm
};

// A failure, or a skip, that is planned for a future call.
struct PlannedCall {
  std::string function;  // empty: any function that can fail
  std::string kernel;    // for launches: part of the name
  int64_t calls_left;
  bool skip;
  int code;
  std::thread::id thread = {};           // the calls of this thread are affected; none: the calls of all threads
  std::thread::id excluded_thread = {};  // the calls of this thread are not affected
  bool repeats = false;                  // all calls from the nth on are affected
};

struct PlannedEigenFault {
  int64_t runs_left;
  int64_t matrix;
  int how;
  int info;
};

struct State {
  State() : streams(kDevices) {}

  static constexpr int kDevices = Memory::kMaxDevices;

  int devices = 2;
  int driver_version = CUDART_VERSION;
  int runtime_version = CUDART_VERSION;
  std::map<int, std::pair<int, int>> compute_capabilities;  // by device; devices that are not in the map have 9.0
  int64_t memory_limit = 0;
  int order = FAKE_CUDA_AS_LATE_AS_POSSIBLE;
  int query_progress = 0;
  int solver = FAKE_CUDA_SOLVER_ENQUEUES;
  std::thread::id holder = {};  // the thread that has set `solver`
  int64_t held_calls = 0;
  // How often each thread has set its capture mode back to the global mode since the mark; see fake_cuda_wait_for_jobs.
  std::map<std::thread::id, int64_t> ended_sections;
  int64_t max_eigen_matrices = std::numeric_limits<int64_t>::max();  // cuSOLVER rejects batches of more matrices
  std::string last_failed;  // the function whose planned failure or skip happened last

  Memory memory;
  Streams streams;
  Handles<cudaStream_t, Stream> stream_handles{1};
  Handles<cudaEvent_t, Event> events{2};
  Handles<cublasHandle_t, BlasHandle> blas{3};
  Handles<cusolverDnHandle_t, SolverHandle> solvers{4};
  Handles<void*, SolverParams> params{5};
  Handles<cudaGraph_t, Nodes> graphs{6};
  Handles<cudaGraphExec_t, Nodes> graph_execs{7};

  std::map<std::string, int64_t> calls;    // by function, since the mark
  std::map<std::string, int64_t> kernels;  // launches by name, since the mark
  std::array<int64_t, FAKE_CUDA_KINDS> counts{};
  std::vector<PlannedCall> planned;
  std::vector<PlannedEigenFault> planned_eigen;
  cudaError_t fault = cudaSuccess;               // returned by all calls that use a device
  std::set<std::pair<int, std::string>> loaded;  // kernels, by device
  int loading = 0;       // number of sections between fake_cuda_begin_loading and fake_cuda_end_loading that are open
  bool may_load = true;  // kernels may be loaded outside of such sections, too; false once the first section has ended

  bool IsLoaded(int device, const std::string& kernel) const { return loaded.count({device, kernel}) != 0; }
  // Loads a kernel when it is first used. Returns false, and records a misuse, if it must not be loaded at this time.
  bool Load(int device, const std::string& kernel);

  // Reports an invalid access. From then on, calls that use a device fail.
  void Fault(const std::string& what);
  void Problem(const std::string& what) { memory.problems().push_back(what); }
  // Returns whether work may access these bytes. If not, calls Fault().
  bool Check(int device, const void* address, size_t bytes, const char* what);
};

State& TheState();
void ResetState();
std::recursive_mutex& TheMutex();
// Waits until is_done() returns true. The condition is checked again after each NotifyAll() of another thread. The
// calling thread must have locked TheMutex() exactly once; it is unlocked during the wait. Records a misuse after a
// minute.
void WaitUntil(const std::function<bool()>& is_done, const char* what);
void NotifyAll();
// Waits while calls are held (FAKE_CUDA_SOLVER_IS_HELD). A function that can be held must call it before it creates its
// Call, which locks the fake.
void WaitWhileHeld();
uint64_t NextRandom();
void SetSeed(uint64_t seed);
int& CurrentDevice();                        // of this thread
cudaStreamCaptureMode& ThreadCaptureMode();  // of this thread
std::string FunctionName(const char* name);

// One call of a function of CUDA. Locks the fake: calls of other threads wait until this one ends.
//
//   Call call(__func__, Call::kUnsafe);
//   if (call.over()) return call.Cuda();
class Call {
 public:
  enum Flags : unsigned {
    kNone = 0,
    kUnsafe = 1,    // not allowed while a stream is captured
    kNoDevice = 2,  // works without a device
    kSynchronizes = 4,
    kQuery = 8,
    kWaitsForDevice = 32,  // invalidates captures even if the calling thread is in the relaxed mode, as on an H100
    kReleases = 16,        // works after a device fault, and ignores failures that are planned for any call
  };
  Call(const char* function, unsigned flags, const char* kernel = nullptr);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Returns whether the call must return at once, because it fails or is skipped.
  bool over() const { return over_; }
  // If over(), return what the call must return: its error, or success if it is skipped.
  cudaError_t Cuda() const { return Cuda(static_cast<cudaError_t>(code_)); }
  cublasStatus_t Blas() const;
  cusolverStatus_t Solver() const;
  // Records the error as the thread's last error.
  static cudaError_t Cuda(cudaError_t error);

  // Returns whether the calling thread is inside of a call.
  static bool IsInside();
  // Returns the stream of a handle, including legacy and per-thread streams, or nullptr if it is not a stream.
  static std::shared_ptr<Stream> StreamOf(cudaStream_t handle, int device);

 private:
  CallScope scope_;  // the first member, so that it covers the others
  std::unique_lock<std::recursive_mutex> lock_;
  bool over_ = false;
  bool own_code_ = false;  // code_ is an error of the function's own library
  int code_ = 0;
};

cudaError_t& LastError();  // of this thread

}  // namespace shampoo::cuda_fake
