// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cublas_v2.h>
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda/fake/test_util.h"

// Tests of the runtime of the fake CUDA: the order of work, kernels, memory, injected failures, and detected misuse.
namespace shampoo::cuda {
namespace {

// The address sanitizer stops the process if a kernel accesses memory outside of an allocation.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

struct Append {
  int32_t* counter;
  int32_t* out;
  void operator()(const Cta& cta) const {
    cta.ForEach(64, [&](int64_t i) { out[(*counter)++] = static_cast<int32_t>(i); });
  }
};

struct WriteAt {
  char* data;
  int64_t at;
  void operator()(const Cta& cta) const {
    cta.Once([&] { data[at] = 1; });
  }
};

struct Reduce {
  const float* in;
  int64_t count;
  double* out;
  void operator()(const Cta& cta) const {
    const double sum = cta.Sum(count, [&](int64_t i) { return static_cast<double>(in[i]); });
    const uint64_t largest = cta.Largest(count, [&](int64_t i) { return static_cast<uint64_t>(in[i] * 10); });
    const int64_t first = cta.First(count, [&](int64_t i) { return in[i] > 1; });
    cta.Once([&] {
      out[0] = sum;
      out[1] = static_cast<double>(largest);
      out[2] = static_cast<double>(first);
    });
  }
};

// Runs `work` in a child process. Returns whether the child ends with the signal SIGSEGV or with an exit status
// other than 0. The address sanitizer ends a process with such a status.
bool Dies(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) == SIGSEGV : WEXITSTATUS(status) != 0;
}

TEST_CASE_FIXTURE(FakeCudaFixture, "work does not run before the host waits for it") {
  float* pinned = nullptr;
  REQUIRE(cudaHostAlloc(reinterpret_cast<void**>(&pinned), 4, cudaHostAllocMapped) == cudaSuccess);
  *pinned = 0;
  CHECK(Launch(stream[0], 1, Scale{data, 2}) == cudaSuccess);
  CHECK(cudaMemcpyAsync(pinned, data, 4, cudaMemcpyDeviceToHost, stream[0]) == cudaSuccess);
  CHECK(cudaEventRecord(event, stream[0]) == cudaSuccess);
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(stream[0]) == cudaErrorNotReady);
  CHECK(*pinned == 0);
  SUBCASE("synchronization") { CHECK(cudaStreamSynchronize(stream[0]) == cudaSuccess); }
  SUBCASE("synchronization with an event") { CHECK(cudaEventSynchronize(event) == cudaSuccess); }
  SUBCASE("synchronization of the device") { CHECK(cudaDeviceSynchronize() == cudaSuccess); }
  SUBCASE("calls of fake_cuda_progress") {
    CHECK(fake_cuda_progress(1) == 1);
    CHECK(*pinned == 0);
    CHECK(fake_cuda_progress(100) == 2);
  }
  SUBCASE("queries that each run two operations") {
    fake_cuda_set_query_progress(2);
    CHECK(cudaEventQuery(event) == cudaErrorNotReady);
    CHECK(cudaEventQuery(event) == cudaSuccess);
  }
  SUBCASE("a query that runs all work before the event") {
    fake_cuda_set_query_progress(-1);
    CHECK(cudaEventQuery(event) == cudaSuccess);
  }
  CHECK(*pinned == 2);
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
}

// One stream sets a number to 7, and the other stream doubles the number. Returns the number, which is 14 if the
// setting stream ran first. If with_event is true, the doubling stream waits for the setting stream. If set_first is
// true, the setting stream is the older stream.
float DoubledAfterSet(FakeCudaFixture& fixture, bool with_event, bool set_first) {
  const std::array<float, 4> seven{7, 7, 7, 7};
  const cudaStream_t sets = fixture.stream[set_first ? 0 : 1];
  const cudaStream_t doubles = fixture.stream[set_first ? 1 : 0];
  CHECK(cudaMemcpyAsync(fixture.data, seven.data(), 16, cudaMemcpyHostToDevice, sets) == cudaSuccess);
  CHECK(cudaEventRecord(fixture.event, sets) == cudaSuccess);
  if (with_event) CHECK(cudaStreamWaitEvent(doubles, fixture.event, 0) == cudaSuccess);
  CHECK(Launch(doubles, 1, Scale{fixture.data, 2}) == cudaSuccess);
  CHECK(cudaStreamSynchronize(doubles) == cudaSuccess);
  CHECK(cudaStreamSynchronize(sets) == cudaSuccess);
  return fixture.First();
}

TEST_CASE_FIXTURE(FakeCudaFixture, "without a wait for an event, the result is wrong in some orders of work") {
  bool right[4][2] = {};  // [order][set_first ? 0 : 1]: whether the result is 14 although no stream waits
  for (int order = FAKE_CUDA_OLDEST_FIRST; order <= FAKE_CUDA_AS_LATE_AS_POSSIBLE; ++order) {
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      for (const bool set_first : {true, false}) {
        fake_cuda_set_order(order, seed);
        CHECK(DoubledAfterSet(*this, true, set_first) == 14);
        right[order][set_first ? 0 : 1] = DoubledAfterSet(*this, false, set_first) == 14;
        if (order == FAKE_CUDA_RANDOM && !right[order][0] && !right[order][1]) break;
      }
    }
  }
  CHECK(right[FAKE_CUDA_OLDEST_FIRST][0]);
  CHECK_FALSE(right[FAKE_CUDA_OLDEST_FIRST][1]);
  CHECK_FALSE(right[FAKE_CUDA_YOUNGEST_FIRST][0]);
  CHECK(right[FAKE_CUDA_YOUNGEST_FIRST][1]);
  CHECK_FALSE(right[FAKE_CUDA_AS_LATE_AS_POSSIBLE][0]);
  CHECK_FALSE(right[FAKE_CUDA_AS_LATE_AS_POSSIBLE][1]);

  // A call of cudaStreamWaitEvent() that is skipped has the same effect as a missing call.
  fake_cuda_set_order(FAKE_CUDA_AS_LATE_AS_POSSIBLE, 1);
  fake_cuda_mark();
  fake_cuda_skip("cudaStreamWaitEvent", 2);
  CHECK(DoubledAfterSet(*this, true, true) == 14);
  CHECK(DoubledAfterSet(*this, true, true) == 7);
  CHECK(fake_cuda_calls("cudaStreamWaitEvent") == 2);
  CHECK(fake_cuda_cancel_failures() == 0);
}

TEST_CASE_FIXTURE(FakeCudaFixture, "cudaStreamWaitEvent waits for the last cudaEventRecord before the call") {
  CHECK(cudaStreamWaitEvent(stream[1], event, 0) == cudaSuccess);  // no record exists yet, so stream[1] does not wait
  CHECK(cudaEventRecord(event, stream[0]) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(stream[1], event, 0) == cudaSuccess);
  CHECK(Launch(stream[0], 1, Scale{data, 2}) == cudaSuccess);
  CHECK(cudaEventRecord(event, stream[0]) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream[1]) == cudaSuccess);
  CHECK(First() == 1);
  CHECK(cudaEventDestroy(event) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream[0]) == cudaSuccess);
  CHECK(First() == 2);
}

TEST_CASE_FIXTURE(FakeCudaFixture, "the legacy stream and blocking streams wait for each other") {
  cudaStream_t blocking = nullptr;
  CHECK(cudaStreamCreate(&blocking) == cudaSuccess);
  CHECK(Launch(blocking, 1, Scale{data, 2}) == cudaSuccess);
  CHECK(Launch(stream[0], 1, Scale{data, 3}) == cudaSuccess);  // stream[0] is non-blocking
  CHECK(Launch(nullptr, 1, Scale{data, 5}) == cudaSuccess);
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(First() == 10);
  CHECK(Launch(nullptr, 1, Scale{data, 2}) == cudaSuccess);
  CHECK(Launch(blocking, 1, Scale{data, 2}) == cudaSuccess);
  CHECK(cudaStreamSynchronize(blocking) == cudaSuccess);
  CHECK(First() == 40);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(First() == 120);
}

TEST_CASE_FIXTURE(FakeCudaFixture, "the host cannot access device memory") {
  CHECK(Dies([&] { data[0] = 1; }));
  CHECK(Dies([&] { (void)*static_cast<volatile float*>(data); }));
  CHECK(Dies([&] { (void)*reinterpret_cast<volatile char*>(stream[0]); }));
  CHECK_FALSE(Dies([] {}));
}

TEST_CASE_FIXTURE(FakeCudaFixture, "memory that was not written is NaN, and a write after the free is reported") {
  float value = 0;
  void* fresh = nullptr;
  CHECK(cudaMalloc(&fresh, 64) == cudaSuccess);
  CHECK(cudaMemcpy(&value, fresh, 4, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(std::isnan(value));
  // stream[1] writes to the memory before stream[0] runs the allocation, which fills the memory with NaN again.
  CHECK(cudaMallocAsync(&fresh, 64, stream[0]) == cudaSuccess);
  CHECK(Launch(stream[1], 1, Scale{static_cast<float*>(fresh), 0}) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream[1]) == cudaSuccess);
  CHECK(cudaMemcpyAsync(&value, fresh, 4, cudaMemcpyDeviceToHost, stream[0]) == cudaSuccess);
  CHECK(cudaFreeAsync(fresh, stream[0]) == cudaSuccess);
  CHECK(cudaFreeAsync(fresh, stream[0]) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaStreamSynchronize(stream[0]) == cudaSuccess);
  CHECK(std::isnan(value));
  CHECK(fake_cuda_problems() == std::string());
  if (kSanitized) return;
  CHECK(Launch(stream[0], 1, WriteAt{static_cast<char*>(fresh), 3}) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream[0]) == cudaSuccess);
  CHECK(std::string(fake_cuda_problems()).find("written after the free of 64 bytes") == 0);
}

TEST_CASE_FIXTURE(FakeCudaFixture, "writes outside an allocation are reported") {
  int64_t at = 0;
  SUBCASE("before") { at = -1; }
  SUBCASE("after") { at = 256; }
  if (kSanitized) {
    CHECK(Dies([&] {
      (void)Launch(stream[0], 1, WriteAt{reinterpret_cast<char*>(data), at});
      (void)cudaStreamSynchronize(stream[0]);
    }));
    return;
  }
  CHECK(Launch(stream[0], 1, WriteAt{reinterpret_cast<char*>(data), at}) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream[0]) == cudaSuccess);
  const std::string problems = fake_cuda_problems();
  CHECK(problems.find(at < 0 ? "before 256 bytes of device 0" : "after the end of 256 bytes") != std::string::npos);
}

TEST_CASE_FIXTURE(FakeCudaFixture,
                  "the order in which kernel loops run varies, and does not change the results of reductions") {
  struct Out {
    int32_t counter, order[64];
  };
  Out* out = nullptr;
  double* reduced = nullptr;
  CHECK(cudaMalloc(reinterpret_cast<void**>(&out), sizeof(Out)) == cudaSuccess);
  CHECK(cudaMalloc(reinterpret_cast<void**>(&reduced), 3 * sizeof(double)) == cudaSuccess);
  std::vector<float> in(1000);
  for (size_t i = 0; i < in.size(); ++i) in[i] = 1 / static_cast<float>(i + 3);
  in[777] = 2;
  in[900] = 3;
  float* on_device = nullptr;
  CHECK(cudaMalloc(reinterpret_cast<void**>(&on_device), in.size() * 4) == cudaSuccess);
  CHECK(cudaMemcpy(on_device, in.data(), in.size() * 4, cudaMemcpyHostToDevice) == cudaSuccess);
  std::set<std::vector<int32_t>> orders;
  std::set<std::vector<double>> results;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    fake_cuda_set_order(FAKE_CUDA_RANDOM, seed);
    CHECK(cudaMemsetAsync(out, 0, sizeof(Out), stream[0]) == cudaSuccess);
    CHECK(Launch(stream[0], 1, Append{&out->counter, out->order}) == cudaSuccess);
    CHECK(Launch(stream[0], 1, Reduce{on_device, 1000, reduced}) == cudaSuccess);
    std::vector<int32_t> order(64);
    std::vector<double> result(3);
    CHECK(cudaMemcpyAsync(order.data(), out->order, 256, cudaMemcpyDeviceToHost, stream[0]) == cudaSuccess);
    CHECK(cudaMemcpyAsync(result.data(), reduced, 24, cudaMemcpyDefault, stream[0]) == cudaSuccess);
    CHECK(cudaStreamSynchronize(stream[0]) == cudaSuccess);
    orders.insert(order);
    results.insert(result);
    std::sort(order.begin(), order.end());
    for (int32_t i = 0; i < 64; ++i) CHECK(order[static_cast<size_t>(i)] == i);
  }
  CHECK(orders.size() > 5);
  REQUIRE(results.size() == 1);
  CHECK(results.begin()->at(1) == 30);
  CHECK(results.begin()->at(2) == 777);
}

TEST_CASE_FIXTURE(FakeCudaFixture, "leaks are reported") {
  fake_cuda_reset();
  CHECK(fake_cuda_leaks() == std::string());
  void* memory = nullptr;
  cudaStream_t left = nullptr;
  cublasHandle_t blas = nullptr;
  CHECK(cudaMalloc(&memory, 100) == cudaSuccess);
  CHECK(cudaStreamCreate(&left) == cudaSuccess);
  CHECK(cublasCreate(&blas) == CUBLAS_STATUS_SUCCESS);
  CHECK(fake_cuda_live(FAKE_CUDA_DEVICE_BYTES) == 100);
  CHECK(fake_cuda_leaks() == std::string("1 streams\n1 cuBLAS handles\n1 device allocations\n  of 100 bytes\n"));
  CHECK(cublasDestroy(blas) == CUBLAS_STATUS_SUCCESS);
  CHECK(cudaStreamDestroy(left) == cudaSuccess);
  CHECK(cudaStreamDestroy(left) == cudaErrorInvalidResourceHandle);
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaErrorInvalidValue);
  CHECK(fake_cuda_leaks() == std::string());
}

TEST_CASE_FIXTURE(FakeCudaFixture, "memory of a collective must not come from a pool") {
  CHECK(fake_cuda_check_collective(data, sizeof ones) == 1);
  CHECK(fake_cuda_check_collective(data + 8, 32) == 1);
  CHECK(fake_cuda_problems() == std::string());
  void* pooled = nullptr;
  CHECK(cudaMallocAsync(&pooled, 64, stream[0]) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream[0]) == cudaSuccess);
  const auto refused = [](const void* memory, size_t bytes) {
    CHECK(fake_cuda_check_collective(memory, bytes) == 0);
    const std::string problems = fake_cuda_problems();
    fake_cuda_clear_problems();
    return problems;
  };
  CHECK(refused(pooled, 64).find("a stream-ordered pool") != std::string::npos);
  CHECK(refused(data + 8, sizeof ones).find("256 bytes from byte 32") != std::string::npos);
  CHECK(refused(ones.data(), 4).find("not device memory") != std::string::npos);
  CHECK(cudaFree(pooled) == cudaSuccess);
}

TEST_CASE_FIXTURE(FakeCudaFixture,
                  "injected failures and skips affect only the selected calls; a device fault affects all calls") {
  fake_cuda_fail("cudaMemsetAsync", 2, cudaErrorLaunchFailure);
  CHECK(cudaMemsetAsync(data, 0, 4, stream[0]) == cudaSuccess);
  CHECK(cudaMemsetAsync(data, 0, 4, stream[0]) == cudaErrorLaunchFailure);
  CHECK(cudaPeekAtLastError() == cudaErrorLaunchFailure);
  CHECK(Launch(stream[0], 1, Scale{data, 1}) == cudaSuccess);  // a launch does not report the earlier error
  CHECK(cudaMemsetAsync(data, 0, 4, stream[0]) == cudaSuccess);

  fake_cuda_fail(nullptr, 2, cudaErrorMemoryAllocation);
  cublasHandle_t blas = nullptr;
  CHECK(cudaMemsetAsync(data, 0, 4, stream[0]) == cudaSuccess);
  CHECK(cublasCreate(&blas) == CUBLAS_STATUS_ALLOC_FAILED);
  CHECK(cublasCreate(&blas) == CUBLAS_STATUS_SUCCESS);

  fake_cuda_fail_here("cudaMemsetAsync", 2, cudaErrorLaunchFailure);
  std::thread([this] {
    for (int i = 0; i < 3; ++i) CHECK(cudaMemsetAsync(data, 0, 4, stream[0]) == cudaSuccess);
  }).join();
  CHECK(cudaMemsetAsync(data, 0, 4, stream[0]) == cudaSuccess);
  CHECK(cudaMemsetAsync(data, 0, 4, stream[0]) == cudaErrorLaunchFailure);

  fake_cuda_mark();
  fake_cuda_skip_launch("Scale", 2);
  CHECK(cudaMemcpyAsync(data, ones.data(), 4, cudaMemcpyHostToDevice, stream[0]) == cudaSuccess);
  for (int i = 0; i < 3; ++i) CHECK(Launch(stream[0], 1, Scale{data, 2}) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream[0]) == cudaSuccess);
  CHECK(First() == 4);
  CHECK(fake_cuda_calls("Launch") == 3);
  CHECK(fake_cuda_launches_of("Scale") == 2);
  CHECK(fake_cuda_count(FAKE_CUDA_LAUNCHES) == 2);
  CHECK(fake_cuda_count(FAKE_CUDA_SYNCHRONIZATIONS) == 2);
  CHECK(fake_cuda_count(FAKE_CUDA_COPIES_TO_HOST) == 1);

  fake_cuda_fault(cudaErrorECCUncorrectable);
  CHECK(cudaStreamSynchronize(stream[0]) == cudaErrorECCUncorrectable);
  CHECK(cudaGetLastError() == cudaErrorECCUncorrectable);
  CHECK(cudaGetLastError() == cudaErrorECCUncorrectable);
  CHECK(cudaFree(data) == cudaErrorECCUncorrectable);
  CHECK(fake_cuda_live(FAKE_CUDA_DEVICE_ALLOCATIONS) == 0);
}

TEST_CASE_FIXTURE(FakeCudaFixture, "the time between two events is known once both have run") {
  cudaEvent_t timed[2] = {};
  for (cudaEvent_t& one : timed) REQUIRE(cudaEventCreateWithFlags(&one, cudaEventDefault) == cudaSuccess);
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, timed[0], timed[1]) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventRecord(timed[0], stream[0]) == cudaSuccess);
  CHECK(Launch(stream[0], 1, Scale{data, 2}) == cudaSuccess);
  CHECK(cudaEventRecord(timed[1], stream[0]) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, timed[0], timed[1]) == cudaErrorNotReady);
  CHECK(milliseconds == -1);
  CHECK(cudaEventSynchronize(timed[1]) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, timed[0], timed[1]) == cudaSuccess);
  CHECK(milliseconds >= 0);
  CHECK(cudaEventRecord(event, stream[0]) == cudaSuccess);
  CHECK(cudaEventSynchronize(event) == cudaSuccess);
  // `event` was created without timing.
  CHECK(cudaEventElapsedTime(&milliseconds, timed[0], event) == cudaErrorInvalidResourceHandle);
}

TEST_CASE_FIXTURE(FakeCudaFixture,
                  "each device has its own streams and memory, and the fake can simulate a system without devices") {
  void* other = nullptr;
  int count = 0;
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
  CHECK(count == 2);
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
  CHECK(cudaSetDevice(1) == cudaSuccess);
  CHECK(cudaMalloc(&other, 256) == cudaSuccess);
  (void)cudaGetLastError();
  CHECK(Launch(stream[0], 1, Scale{data, 2}) == cudaErrorInvalidResourceHandle);
  CHECK(cudaMemcpyAsync(other, data, 256, cudaMemcpyDefault, stream[0]) == cudaSuccess);
  cudaPointerAttributes attributes;
  CHECK(cudaPointerGetAttributes(&attributes, static_cast<char*>(other) + 8) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeDevice);
  CHECK(attributes.device == 1);
  CHECK(cudaPointerGetAttributes(&attributes, &count) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  CHECK(cudaSetDevice(0) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream[0]) == cudaSuccess);
  CHECK(cudaMemsetAsync(other, 0, 4, stream[0]) == cudaSuccess);  // `other` is memory of device 1
  CHECK(cudaStreamSynchronize(stream[0]) == cudaErrorIllegalAddress);

  fake_cuda_reset();
  fake_cuda_set_system(0, CUDART_VERSION, CUDART_VERSION);
  CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
  fake_cuda_set_system(2, 0, CUDART_VERSION);
  CHECK(cudaGetDeviceCount(&count) == cudaErrorInsufficientDriver);
  CHECK(cudaDriverGetVersion(&count) == cudaSuccess);
  CHECK(count == 0);
}

TEST_CASE("streams have the lowest priority by default, and the fake counts the streams of each priority") {
  fake_cuda_reset();
  int lowest = 0;
  int highest = 0;
  CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest) == cudaSuccess);
  CHECK(highest < lowest);
  cudaStream_t streams[3];
  CHECK(cudaStreamCreateWithFlags(&streams[0], cudaStreamNonBlocking) == cudaSuccess);
  CHECK(cudaStreamCreateWithPriority(&streams[1], cudaStreamNonBlocking, lowest) == cudaSuccess);
  CHECK(cudaStreamCreateWithPriority(&streams[2], cudaStreamNonBlocking, highest) == cudaSuccess);
  CHECK(fake_cuda_streams_of_priority(lowest) == 2);
  CHECK(fake_cuda_streams_of_priority(highest) == 1);
  for (cudaStream_t stream : streams) CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(fake_cuda_streams_of_priority(lowest) + fake_cuda_streams_of_priority(highest) == 0);
}

}  // namespace
}  // namespace shampoo::cuda
