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

// The state of the fake CUDA, and the class Call, which most functions of the fake create first.
namespace shampoo::cuda_fake {

// Maps handles to objects. A handle is an inaccessible address, so a program that dereferences a handle crashes. Until
// the next fake_cuda_reset(), each address is used for only one handle.
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
  std::string function;  // "" selects all functions except those that free memory or destroy objects
  std::string kernel;    // part of the name of a launched kernel; "" selects all kernels
  int64_t calls_left;    // matching calls up to and including the first affected call
  bool skip;
  int code;
  std::thread::id thread = {};           // if set, only calls of this thread are affected
  std::thread::id excluded_thread = {};  // calls of this thread are not affected
  bool repeats = false;                  // after the first affected call, all later calls are affected, too
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
  std::map<int, std::pair<int, int>> compute_capabilities;  // by device; the default of a device is 9.0
  int64_t memory_limit = 0;
  int order = FAKE_CUDA_AS_LATE_AS_POSSIBLE;
  int query_progress = 0;
  int solver = FAKE_CUDA_SOLVER_ENQUEUES;
  std::thread::id holder = {};  // the thread that has set `solver`
  int64_t held_calls = 0;
  // How often each thread has set its capture mode back to the global mode since the last fake_cuda_mark(); see
  // fake_cuda_wait_for_jobs().
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

  std::map<std::string, int64_t> calls;    // calls of each function since the last fake_cuda_mark()
  std::map<std::string, int64_t> kernels;  // launches of each kernel since the last fake_cuda_mark()
  std::array<int64_t, FAKE_CUDA_KINDS> counts{};
  std::vector<PlannedCall> planned;
  std::vector<PlannedEigenFault> planned_eigen;
  cudaError_t fault = cudaSuccess;               // after a device fault: the error of all calls that use a device
  std::set<std::pair<int, std::string>> loaded;  // pairs of a device and a kernel that is loaded onto it
  int loading = 0;                               // number of open loading sections; see fake_cuda_begin_loading()
  bool may_load = true;  // kernels may be loaded outside of loading sections; false after the first loading section

  bool IsLoaded(int device, const std::string& kernel) const { return loaded.count({device, kernel}) != 0; }
  // Loads the kernel unless it is loaded. If loading is not allowed at this time, records a misuse and returns false.
  bool Load(int device, const std::string& kernel);

  // Records an invalid access as a misuse and as a device fault. All later calls that use a device fail.
  // Calls with the flag Call::kReleases still free memory or destroy objects.
  void Fault(const std::string& what);
  void Problem(const std::string& what) { memory.problems().push_back(what); }
  // Returns whether work of the device may access these bytes. If not, calls Fault(). `what` names the access.
  bool Check(int device, const void* address, size_t bytes, const char* what);
};

State& TheState();
void ResetState();
std::recursive_mutex& TheMutex();
// Waits until is_done() returns true. Each NotifyAll() of another thread causes another call of is_done(). The calling
// thread must have locked TheMutex() exactly once; the mutex is unlocked during the wait. After a minute, records the
// misuse "waited too long for `what`" and returns.
void WaitUntil(const std::function<bool()>& is_done, const char* what);
void NotifyAll();
// Waits while calls are held (FAKE_CUDA_SOLVER_IS_HELD). A function that can be held must call WaitWhileHeld() before
// the function creates a Call, because a Call locks the fake.
void WaitWhileHeld();
uint64_t NextRandom();
void SetSeed(uint64_t seed);
int& CurrentDevice();                        // the current device of the calling thread
cudaStreamCaptureMode& ThreadCaptureMode();  // the capture mode of the calling thread
std::string FunctionName(const char* name);

// One call of a function of CUDA. While the object exists, the fake is locked: calls on other threads wait.
//
//   Call call(__func__, Call::kUnsafe);
//   if (call.over()) return call.Cuda();
class Call {
 public:
  enum Flags : unsigned {
    kNone = 0,
    kUnsafe = 1,        // not allowed while a stream is captured
    kNoDevice = 2,      // works without a device
    kSynchronizes = 4,  // counts as FAKE_CUDA_SYNCHRONIZATIONS
    kQuery = 8,         // counts as FAKE_CUDA_QUERIES
    // With kUnsafe: invalidates captures even if the calling thread is in the relaxed mode, as was observed on an H100.
    kWaitsForDevice = 32,
    // Frees memory or destroys an object: is executed even after a device fault, and ignores failures that are injected
    // without a function's name.
    kReleases = 16,
  };
  Call(const char* function, unsigned flags, const char* kernel = nullptr);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Returns whether the call must return at once, because it fails or is skipped.
  bool over() const { return over_; }
  // If over() is true, these three functions return the result of the call: its error, or success if it is skipped.
  cudaError_t Cuda() const { return Cuda(static_cast<cudaError_t>(code_)); }
  cublasStatus_t Blas() const;
  cusolverStatus_t Solver() const;
  // Records the error as the thread's last error.
  static cudaError_t Cuda(cudaError_t error);

  // Returns whether the calling thread is inside of a call.
  static bool IsInside();
  // Returns the stream of a handle, or nullptr if the handle is invalid. NULL and the handles of CUDA for the legacy
  // and the per-thread stream are valid.
  static std::shared_ptr<Stream> StreamOf(cudaStream_t handle, int device);

 private:
  CallScope scope_;  // must be the first member, so that it exists while the other members are created and destroyed
  std::unique_lock<std::recursive_mutex> lock_;
  bool over_ = false;
  bool own_code_ = false;  // code_ is an error of the function's own library; if false, code_ is a cudaError
  int code_ = 0;
};

cudaError_t& LastError();  // the last error of the calling thread

}  // namespace shampoo::cuda_fake
