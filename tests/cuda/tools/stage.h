// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/fake/control.h"
#include "tests/cuda/tools/device_model.h"

namespace shampoo_test {

// Returns a doctest decorator for test cases that count calls of CUDA or inject failures. The decorator puts
// these test cases into the test suite "fake", which does not run on a GPU.
inline doctest::test_suite NeedsFake() { return {"fake"}; }

// Returns whether calls of CUDA reach the fake CUDA instead of a GPU.
inline bool OnFake() { return fake_cuda_is_fake() != 0; }

// Returns the number of devices, or 2 if there are more. By default, the fake CUDA has two devices.
inline int Devices() {
  int devices = 0;
  MustCuda(cudaGetDeviceCount(&devices));
  return std::min(devices, 2);
}

// Checks that since fake_cuda_mark(), no call has copied data to the host, allocated memory, or copied from or to
// pageable host memory.
inline void CheckNoCopiesOrAllocations() {
  CHECK(fake_cuda_count(FAKE_CUDA_COPIES_TO_HOST) == 0);
  CHECK(fake_cuda_count(FAKE_CUDA_ALLOCATIONS) == 0);
  CHECK(fake_cuda_count(FAKE_CUDA_PAGEABLE_COPIES) == 0);
}

// Checks that calls() enqueues work but loads no kernel, allocates no memory and does not wait. The fake CUDA must run
// work in the order FAKE_CUDA_AS_LATE_AS_POSSIBLE, so that the work is still pending after calls().
template <typename Calls>
void CheckOnlyEnqueues(const Calls& calls) {
  fake_cuda_mark();
  calls();
  CHECK(fake_cuda_count(FAKE_CUDA_LOADS) == 0);
  CHECK(fake_cuda_count(FAKE_CUDA_ALLOCATIONS) == 0);
  CHECK(fake_cuda_count(FAKE_CUDA_SYNCHRONIZATIONS) == 0);
  CHECK(fake_cuda_live(FAKE_CUDA_PENDING_OPERATIONS) > 0);
}

// A test creates a Stage first. The constructor resets the fake CUDA. The destructor checks that all injected failures
// have occurred, that CUDA was not misused, and that nothing has leaked.
class Stage {
 public:
  explicit Stage(int order = FAKE_CUDA_RANDOM, uint64_t seed = 1) {
    fake_cuda_reset();
    fake_cuda_set_order(order, seed);
  }
  ~Stage() {
    CHECK(fake_cuda_cancel_failures() == 0);
    CHECK(std::string(fake_cuda_problems()) == "");
    CHECK(std::string(fake_cuda_leaks()) == "");
    fake_cuda_reset();
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
};

class TestStream {
 public:
  explicit TestStream(unsigned flags = cudaStreamNonBlocking) { MustCuda(cudaStreamCreateWithFlags(&stream_, flags)); }
  ~TestStream() { (void)cudaStreamDestroy(stream_); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  operator cudaStream_t() const { return stream_; }  // NOLINT: implicit on purpose

 private:
  cudaStream_t stream_ = nullptr;
};

// A Stage and a stream, for tests that enqueue all work in this stream.
class StageWithStream : public Stage, public TestStream {
 public:
  explicit StageWithStream(int order = FAKE_CUDA_RANDOM) : Stage(order) {}
};

// A Model with its own Stage and its own stream, in which the Model enqueues all its work.
class StagedModel : public StageWithStream, public Model {
 public:
  explicit StagedModel(const ModelSpec& spec, int order = FAKE_CUDA_RANDOM)
      : StageWithStream(order), Model(spec, static_cast<TestStream&>(*this)) {}
};

// Memory of the current device.
class DeviceBytes {
 public:
  explicit DeviceBytes(size_t bytes) : bytes_(bytes) { MustCuda(cudaMalloc(&data_, bytes)); }
  ~DeviceBytes() { (void)cudaFree(data_); }
  DeviceBytes(DeviceBytes&& other) noexcept : bytes_(other.bytes_), data_(std::exchange(other.data_, nullptr)) {}
  DeviceBytes& operator=(DeviceBytes&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
    return *this;
  }
  void* get() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  void* data_ = nullptr;
};

// Device memory for the state of a model. The constructor writes the state of a newly created optimizer to this memory.
class StateArena : public DeviceBytes {
 public:
  explicit StateArena(ModelSpec spec, cudaStream_t stream = nullptr)
      : DeviceBytes(PlannedBytes(MakePlan(spec).get(), "state")) {
    const Model fresh(In(std::move(spec)), stream);
  }
  // Returns the specification of a model whose state is in this memory.
  ModelSpec In(ModelSpec spec) const {
    spec.state = get();
    spec.state_bytes = bytes();
    return spec;
  }
};

// Two arenas for shampoo_optimizer_bind_state(): a step reads the state from one arena and writes it to the other. The
// arena that the first step reads contains zeros.
class Arenas {
 public:
  explicit Arenas(const Model& model) : from_(PlannedBytes(model.plan.get(), "state")), to_(from_.bytes()) {
    MustCuda(cudaMemset(from_.get(), 0, from_.bytes()));
  }
  void Bind(Model* model) const { Must(shampoo_optimizer_bind_state(model->optimizer, from_.get(), to_.get())); }
  void Swap() { std::swap(from_, to_); }

 private:
  DeviceBytes from_, to_;
};

// Pinned host memory. Devices can copy to it and from it asynchronously.
class PinnedFloats {
 public:
  explicit PinnedFloats(size_t count) : count_(count) {
    MustCuda(cudaHostAlloc(reinterpret_cast<void**>(&data_), count * sizeof(float), 0));
  }
  ~PinnedFloats() { (void)cudaFreeHost(data_); }
  PinnedFloats(PinnedFloats&& other) noexcept : data_(std::exchange(other.data_, nullptr)), count_(other.count_) {}
  PinnedFloats& operator=(PinnedFloats&&) = delete;
  void Set(const std::vector<double>& values) {
    for (size_t i = 0; i < count_; ++i) data_[i] = static_cast<float>(values[i]);
  }
  float* get() const { return data_; }
  size_t bytes() const { return count_ * sizeof(float); }

 private:
  float* data_ = nullptr;
  size_t count_;
};

// Returns model.Bits() as a vector because, if a check fails, doctest prints a string but not a vector.
inline std::vector<char> BitsOf(const Model& model) {
  const std::string bits = model.Bits();
  return {bits.begin(), bits.end()};
}

inline const std::vector<Keys> kRootMethods = Combinations("root_method=eigen|newton|higher_order|cans");

// All values of the key status_lag.
inline const std::vector<Keys> kLags = Combinations("status_lag=0|1");
// Returns whether a step returns the error of the previous step instead of its own error (status_lag=1, the default).
inline bool ReportsLate(const Keys& keys) { return keys.Value("status_lag") != "0"; }

// Returns the specification of a model with blocks of five shapes. The plugin multiplies blocks of different shapes in
// different streams, so this model tests the streams of the plugin. To multiply the 2 x 3 x 4 block along its middle
// dim, the plugin must transpose the block. Factor matrices are rank-deficient in the first steps. The key epsilon is
// much larger than their rounding errors, about 1e-6 in float32, so these errors hardly change the roots.
inline ModelSpec FiveShapes(const Keys& more = {}) {
  ModelSpec spec;
  spec.keys = Keys("grafting=adam momentum=0.9 use_merge_dims=false precondition_frequency=2 epsilon=0.1") + more;
  spec.params = {{{4, 3}}, {{5}}, {{2, 3, 4}}, {{6, 6}}, {{3, 7}}, {{4, 3}}};
  return spec;
}

}  // namespace shampoo_test
