// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/cuda/host_root_bytes.h"
#include "core/backend/cuda/interface.h"
#include "core/base/text.h"
#include "core/plan/plan.h"

namespace shampoo {

// The functions of a fake CUDA plugin for async roots that the library computes on the host (root_device=host). The
// fake copies matrices and roots in the order of the calls, as on a stream. It delays each copy until a call waits for
// this copy or for a later copy. Create this object before the object of class HostRoots, whose thread calls the
// functions.
class FakeHostRoots {
 public:
  using Root = std::pair<int64_t, int>;  // block and dim
  struct Started {
    void* stream;
    const void* arena;
    RootTask task;
    std::vector<RootTask> tasks;
  };

  explicit FakeHostRoots(const PlanData& plan) : plan_(plan), buffer_bytes_(cuda::HostRootBufferBytes(plan)) {
    the_roots = this;
  }
  ~FakeHostRoots() { the_roots = nullptr; }
  FakeHostRoots(const FakeHostRoots&) = delete;
  FakeHostRoots& operator=(const FakeHostRoots&) = delete;
  static void AddTo(cuda::Table* table);

  // The factor matrices on the device, with both triangles, and whether each matrix may be diagonal.
  std::map<Root, std::vector<double>> matrices;
  std::map<Root, bool> may_be_diagonal;
  std::set<std::string> fails;  // the names of the calls that fail
  // The statuses and roots that the library copied to the device. Roots whose status reports a failure are not copied.
  std::map<Root, cuda::RootStatus> statuses;
  std::map<Root, std::vector<double>> roots;
  std::vector<Started> started;

  // Sets the size of each of the two host buffers for matrices. Call this function before the library uses the buffers.
  void SetBufferBytes(int64_t bytes) { buffer_bytes_ = bytes; }
  // Makes the thread of HostRoots wait at the start of each job until Release() is called. A job computes the roots
  // that one call of start_host_roots requests. After a minute the thread stops waiting, so that a test ends.
  void Hold() {
    const std::lock_guard lock(mutex_);
    is_held_ = true;
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    is_held_ = false;
    released_.notify_all();
  }
  // Returns the calls that the thread of HostRoots has made, such as "begin 1" for job 1, or "fetch 0: 0.0 0.1" for a
  // call that fetches the matrices of dims 0 and 1 of block 0 to buffer 0.
  std::vector<std::string> calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  static FakeHostRoots& It() { return *the_roots; }

  cuda::HostRootMemory Memory() {
    for (std::vector<char>& buffer : buffers_) buffer.assign(static_cast<size_t>(buffer_bytes_), kUninitialized);
    return {{buffers_[0].data(), buffers_[1].data()}, buffer_bytes_};
  }
  // Returns the result of the call `name`: an error if `fails` contains the name.
  cuda::Result ResultOf(const char* name) {
    if (!fails.contains(name)) return {Code::kOk, nullptr};
    return {Code::kDevice, fails.find(name)->c_str()};
  }
  cuda::Result Start(const cuda::HostRootStart& start, int64_t* job) {
    started.push_back({start.stream, start.arena, start.task, {start.tasks, start.tasks + plan_.blocks.size()}});
    *job = static_cast<int64_t>(started.size());
    return ResultOf("start");
  }
  cuda::Result Begin(int64_t job) {
    std::unique_lock lock(mutex_);
    if (!released_.wait_for(lock, std::chrono::minutes(1), [this] { return !is_held_; }))
      calls_.emplace_back("gave up");
    calls_.push_back(Cat("begin ", job));
    return ResultOf("begin");
  }
  cuda::Result Fetch(const std::vector<cuda::HostRoot>& fetched, int32_t buffer) {
    Record(Cat("fetch ", buffer, ":"), fetched);
    stream_.push_back({buffer, [this, fetched] {
                         for (const cuda::HostRoot& root : fetched) CopyMatrix(root);
                       }});
    return ResultOf("fetch");
  }
  cuda::Result WaitForFetch(int32_t buffer) {
    Record(Cat("wait ", buffer), {});
    const auto fetches_it = [&](const Enqueued& work) { return work.fetched_buffer == buffer; };
    while (std::any_of(stream_.begin(), stream_.end(), fetches_it)) RunFirst();
    return ResultOf("wait");
  }
  cuda::Result Return(const std::vector<cuda::HostRoot>& computed) {
    Record("return", computed);
    stream_.push_back({-1, [this, computed] {
                         for (const cuda::HostRoot& root : computed) CopyRoot(root);
                       }});
    return ResultOf("return");
  }
  cuda::Result End(int64_t job) {
    while (!stream_.empty()) RunFirst();
    Record(Cat("end ", job), {});
    return ResultOf("end");
  }

  void Record(std::string call, const std::vector<cuda::HostRoot>& of) {
    for (const cuda::HostRoot& root : of) call += Cat(" ", root.block, ".", root.dim);
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
  }
  void RunFirst() {
    stream_.front().copy();
    stream_.pop_front();
  }
  void CopyMatrix(const cuda::HostRoot& root) {
    const std::vector<double>& matrix = matrices.at({root.block, root.dim});
    const bool is_f64 = plan_.block(root.block).computation == Dtype::kF64;
    for (size_t i = 0; i < matrix.size(); ++i) {
      if (is_f64) static_cast<double*>(root.matrix)[i] = matrix[i];
      if (!is_f64) static_cast<float*>(root.matrix)[i] = static_cast<float>(matrix[i]);
    }
    root.header->may_be_diagonal = may_be_diagonal[{root.block, root.dim}] ? 1 : 0;
  }
  void CopyRoot(const cuda::HostRoot& root) {
    const Root at{root.block, root.dim};
    statuses[at] = root.header->status;
    if (root.header->status.failure != RootFailure::kNone) return;
    std::vector<double>& to = roots[at];
    to.clear();
    const bool is_f64 = plan_.block(root.block).computation == Dtype::kF64;
    for (size_t i = 0; i < matrices.at(at).size(); ++i) {
      to.push_back(is_f64 ? static_cast<double*>(root.matrix)[i] : double{static_cast<float*>(root.matrix)[i]});
    }
  }

  struct Enqueued {
    int32_t fetched_buffer;  // the buffer that receives matrices, or -1 if the copy returns roots
    std::function<void()> copy;
  };
  static constexpr char kUninitialized = 0x55;
  static inline FakeHostRoots* the_roots = nullptr;
  const PlanData& plan_;
  int64_t buffer_bytes_;
  std::vector<char> buffers_[2];
  std::deque<Enqueued> stream_;
  std::mutex mutex_;
  std::condition_variable released_;
  bool is_held_ = false;
  std::vector<std::string> calls_;
};

inline void FakeHostRoots::AddTo(cuda::Table* table) {
  table->host_root_memory = [](cuda::Engine*) { return It().Memory(); };
  table->start_host_roots = [](cuda::Engine*, const cuda::HostRootStart* start, int64_t* job) {
    return It().Start(*start, job);
  };
  table->begin_host_roots = [](cuda::Engine*, int64_t job) { return It().Begin(job); };
  table->fetch_host_roots = [](cuda::Engine*, const cuda::HostRoot* roots, int64_t count, int32_t buffer) {
    return It().Fetch({roots, roots + count}, buffer);
  };
  table->wait_for_host_roots = [](cuda::Engine*, int32_t buffer) { return It().WaitForFetch(buffer); };
  table->return_host_roots = [](cuda::Engine*, const cuda::HostRoot* roots, int64_t count) {
    return It().Return({roots, roots + count});
  };
  table->end_host_roots = [](cuda::Engine*, int64_t job) { return It().End(job); };
}

}  // namespace shampoo
