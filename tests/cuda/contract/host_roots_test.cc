// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Async roots that are computed on the host (root_device host). async_roots_test.cc has the cases that they share with
// roots on the device.
#include <atomic>
#include <cfloat>
#include <chrono>
#include <cmath>
#include <thread>

#include "tests/core/temporary_directory.h"
#include "tests/cuda/contract/grid.h"
#include "tests/cuda/contract/pair.h"
#include "tests/cuda/tools/device_ranks.h"

namespace shampoo_test {
namespace {

// Roots are used from step 5 on. The roots of step 10 are used from step 13 on, and those of step 15 from step 18 on.
// With one thread, each buffer has room for two of the largest matrices, so that a job has several chunks.
ModelSpec HostRootsSpec(const Keys& more = {}) {
  ModelSpec spec = FiveShapes(
      Keys{{"precondition_frequency", "5"}, {"root_async", "3"}, {"beta2", "0.9"}, {"root_device", "host"}} + more);
  spec.params.push_back({{130, 3}, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F64});
  return spec;
}

// Trains 19 steps. is_held: the host computes no roots from step 10 until step 13 and from step 15 until step 18.
std::vector<char> TrainOnHost(int order, bool is_held, const ModelSpec& spec) {
  const StageWithStream stream(order);
  Model model(spec, stream);
  model.FillParams(1);
  for (uint64_t t = 1; t <= 19; ++t) {
    if (is_held && (t == 10 || t == 15)) fake_cuda_set_solver(FAKE_CUDA_SOLVER_IS_HELD);
    if (t == 13 || t == 18) fake_cuda_set_solver(FAKE_CUDA_SOLVER_ENQUEUES);
    model.Step(t);
    if (is_held && t == 10) fake_cuda_wait_for_held_call();
  }
  return BitsOf(model);
}

TEST_CASE("steps continue while the host computes roots, and the speed of the device and of the host changes no bit" *
          NeedsFake()) {
  const std::vector<char> expected = TrainOnHost(FAKE_CUDA_OLDEST_FIRST, false, HostRootsSpec());
  for (const int order :
       {FAKE_CUDA_OLDEST_FIRST, FAKE_CUDA_YOUNGEST_FIRST, FAKE_CUDA_RANDOM, FAKE_CUDA_AS_LATE_AS_POSSIBLE}) {
    CAPTURE(order);
    CHECK(TrainOnHost(order, false, HostRootsSpec()) == expected);
    CHECK(TrainOnHost(order, true, HostRootsSpec()) == expected);
  }
  ModelSpec threads = HostRootsSpec();
  threads.threads = 3;
  CHECK(TrainOnHost(FAKE_CUDA_RANDOM, false, threads) == expected);
  CHECK(TrainOnHost(FAKE_CUDA_AS_LATE_AS_POSSIBLE, true, HostRootsSpec({{"status_lag", "0"}})) == expected);
}

// Trains shards for 14 steps. Returns the bits of all ranks.
std::vector<std::vector<char>> TrainShardsOnHost(int order, const Grid& grid, const Keys& more) {
  const Stage stage(order);
  DeviceRanks ranks(HostRootsSpec(more), grid.copies, grid.shards);
  ranks.FillParams(1);
  for (uint64_t t = 1; t <= 14; ++t) {
    if (t == 10) fake_cuda_mark();
    ranks.Step(t);
    REQUIRE(ranks.DifferencesFrom(SHAMPOO_OK) == "");
  }
  CHECK(fake_cuda_count(FAKE_CUDA_EIGENPROBLEMS) == 0);  // the host computes the roots of step 10
  ranks.Status();
  REQUIRE(ranks.DifferencesFrom(SHAMPOO_OK) == "");
  std::vector<std::vector<char>> bits;
  for (int rank = 0; rank < ranks.world(); ++rank) bits.push_back(BitsOf(ranks[rank]));
  return bits;
}

void CheckShardsOnHost(const Grid& grid, const Keys& more) {
  CAPTURE(grid.copies);
  CAPTURE(grid.shards);
  CAPTURE(more[0].second);
  CAPTURE(more[1].second);
  const auto expected = TrainShardsOnHost(FAKE_CUDA_OLDEST_FIRST, grid, more);
  CHECK(TrainShardsOnHost(FAKE_CUDA_AS_LATE_AS_POSSIBLE, grid, more) == expected);
}

TEST_CASE("hosts of shards compute roots, and no order of streams changes a bit" * NeedsFake()) {
  CheckShardsOnHost({1, 2}, {{"shard_mode", "local"}, {"status_lag", "0"}});
  CheckShardsOnHost({1, 2}, {{"shard_mode", "gather"}, {"status_lag", "1"}});
}

TEST_CASE("hosts of copies of shards compute roots, and no order of streams changes a bit" *
          doctest::test_suite("long")) {
  for (const Grid& grid : {Grid{1, 3}, {2, 2}}) {
    for (const char* mode : {"local", "gather"}) {
      for (const char* lag : {"0", "1"}) CheckShardsOnHost(grid, {{"shard_mode", mode}, {"status_lag", lag}});
    }
  }
}

TEST_CASE("steps with roots on the host allocate nothing, use no pageable memory and solve no eigenproblem" *
          NeedsFake()) {
  const StageWithStream stream(FAKE_CUDA_AS_LATE_AS_POSSIBLE);
  Model model(HostRootsSpec(), stream);
  model.FillParams(1);
  model.Train(1, 9);
  model.Bind();
  fake_cuda_mark();
  for (int t = 10; t <= 14; ++t) Must(shampoo_optimizer_step(model.optimizer, stream));
  CHECK(fake_cuda_count(FAKE_CUDA_ALLOCATIONS) == 0);
  CHECK(fake_cuda_count(FAKE_CUDA_PAGEABLE_COPIES) == 0);
  CHECK(fake_cuda_count(FAKE_CUDA_EIGENPROBLEMS) == 0);
  CHECK(fake_cuda_calls("cudaStreamSynchronize") == 0);
}

TEST_CASE("async roots add one stream, which has the lowest priority" * NeedsFake()) {
  const auto streams_with = [](const Keys& keys) {
    const Stage stage;
    const Model model(HostRootsSpec(keys));
    const int64_t lowest = fake_cuda_streams_of_priority(0);
    const int64_t highest = fake_cuda_streams_of_priority(-5);
    CHECK(lowest + highest == fake_cuda_live(FAKE_CUDA_STREAMS));
    return std::pair(lowest, highest);
  };
  const auto [lowest, highest] = streams_with({{"root_async", "0"}, {"root_device", "device"}});
  CHECK(highest > 0);
  CHECK(streams_with({{"root_device", "device"}}) == std::pair(lowest + 1, highest));
  CHECK(streams_with({{"root_device", "host"}}) == std::pair(lowest + 1, highest));
}

TEST_CASE("rungs and counters of roots on the host are the same as on the CPU") {
  for (const Keys& keys : {Keys{{"root_method", "newton"}, {"root_max_iterations", "2"}, {"epsilon", "1e-6"}},
                           Keys{{"root_method", "eigen"}}, Keys{{"root_dtype", "f64"}}}) {
    const StageWithStream stream;
    Pair pair(HostRootsSpec(keys), stream);
    pair.Train(1, 9);
    Must(shampoo_optimizer_status(pair.device.optimizer, 1, nullptr));
    const auto counts = [](const Model& model) {
      std::vector<double> values;
      for (const char* key : {"root_computed", "root_retried", "root_retried_float64", "root_retried_eigen",
                              "root_reused", "root_newton", "root_eigen", "root_scalar", "root_diagonal"}) {
        values.push_back(model.Stat(key));
      }
      return values;
    };
    // The first roots are computed on the device, because the step at which they are due uses them at once.
    const std::vector<double> host_before = counts(pair.host);
    const std::vector<double> device_before = counts(pair.device);
    pair.Train(10, 19);
    Must(shampoo_optimizer_status(pair.device.optimizer, 1, nullptr));
    const std::vector<double> on_host = counts(pair.host);
    const std::vector<double> on_device = counts(pair.device);
    for (size_t i = 0; i < on_host.size(); ++i) {
      CAPTURE(i);
      CHECK(on_device[i] - device_before[i] == on_host[i] - host_before[i]);
    }
    CHECK(on_host[0] - host_before[0] > 0);
    if (keys[0].second == "newton") CHECK(on_host[1] - host_before[1] > 0);
  }
}

// The device and the CPU measure roots of the same method, so their statistics differ only because their factor
// matrices have different rounding errors. On a GPU, residuals that consist of rounding errors agree only in magnitude,
// which is a few machine epsilons of float32, the dtype of the stored roots. On the fake, most rounding errors equal
// those of the CPU.
TEST_CASE("residuals of roots on the host are those of the CPU, and measuring changes no bit") {
  const double rounding = OnFake() ? 0 : 16 * static_cast<double>(FLT_EPSILON);
  for (const Keys& keys : {Keys{{"root_dtype", "f32"}}, Keys{{"root_dtype", "f64"}},
                           Keys{{"root_method", "newton"}, {"root_max_iterations", "12"}, {"epsilon", "0.1"}}}) {
    for (const char* lag : {"0", "1"}) {
      CAPTURE(keys[0].second);
      CAPTURE(std::string(lag));
      const StageWithStream stream;
      const Keys more = keys + Keys{{"status_lag", lag}};
      Pair pair(HostRootsSpec(more + Keys{{"track_root_residuals", "true"}}), stream);
      Model plain(HostRootsSpec(more), stream);
      plain.FillParams(1);
      pair.Train(1, 18);
      plain.Train(1, 18);
      Must(shampoo_optimizer_status(pair.device.optimizer, 1, nullptr));
      CHECK(BitsOf(pair.device) == BitsOf(plain));
      CHECK(plain.Stat("root_error.worst") == -1);
      for (const char* stat : {"root_error.mean", "root_error.median", "root_error.max", "root_residual.mean",
                               "root_residual.median", "root_residual.max"}) {
        CAPTURE(std::string(stat));
        const double expected = pair.host.Stat(stat);
        CHECK(expected > 0);
        CHECK(pair.device.Stat(stat) > 0);
        CHECK(std::fabs(pair.device.Stat(stat) - expected) <= rounding + 0.5 * expected);
      }
    }
  }
}

TEST_CASE("training from a checkpoint that was saved while the host computed roots is bit-identical") {
  const StageWithStream stream;
  const shampoo::TemporaryDirectory folder;
  Model first(HostRootsSpec(), stream);
  Model second(HostRootsSpec(), stream);
  first.FillParams(1);
  first.Train(1, 11);
  first.Save(folder.path());
  second.Load(folder.path());
  second.SetParamsOf(first);
  first.Train(12, 19);
  second.Train(12, 19);
  CHECK(BitsOf(second) == BitsOf(first));
}

TEST_CASE("destroying an optimizer waits for the thread that computes roots on the host" * NeedsFake()) {
  const StageWithStream stream;
  Model model(HostRootsSpec(), stream);
  model.FillParams(1);
  model.Train(1, 9);
  fake_cuda_set_solver(FAKE_CUDA_SOLVER_IS_HELD);
  model.Step(10);
  fake_cuda_wait_for_held_call();
  std::atomic<bool> released = false;
  std::thread later([&released] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    released = true;
    fake_cuda_set_solver(FAKE_CUDA_SOLVER_ENQUEUES);
  });
  shampoo_optimizer_destroy(std::exchange(model.optimizer, nullptr));
  CHECK(released);
  later.join();
}

TEST_CASE("an optimizer may be destroyed at any time while the host computes roots") {
  for (int run = 0; run < 20; ++run) {
    const StageWithStream stream;
    Model model(HostRootsSpec(), stream);
    model.FillParams(1);
    model.Train(1, 10);
    std::this_thread::sleep_for(std::chrono::microseconds(100 * run));
  }
}

TEST_CASE("an error of the thread that computes roots on the host is returned by a later step" * NeedsFake()) {
  const auto train = [](int64_t nth, std::vector<char>* bits) {
    const StageWithStream stream;
    Model model(HostRootsSpec(), stream);
    model.FillParams(1);
    model.Train(1, 9);
    if (nth > 0) fake_cuda_fail_elsewhere(nullptr, nth, nth % 2 == 0 ? cudaErrorMemoryAllocation : cudaErrorUnknown);
    bool expects_error = nth > 0;
    bool has_failed = false;
    for (uint64_t t = 10; t <= 13; ++t) {
      model.FillGradients(t);
      shampoo_status status = model.TryStep();
      if (expects_error && status != SHAMPOO_OK) {
        CheckError(status, nth % 2 == 0 ? SHAMPOO_E_NOMEM : SHAMPOO_E_DEVICE, "(...) failed: ");
        expects_error = false;
        has_failed = true;
        status = model.TryStep();
      }
      Must(status);
    }
    CHECK(has_failed == (fake_cuda_cancel_failures() == 0 && nth > 0));
    *bits = BitsOf(model);
    return has_failed;
  };
  std::vector<char> expected;
  train(0, &expected);
  int64_t failures = 0;
  for (std::vector<char> bits; train(failures + 1, &bits); ++failures) {
    CAPTURE(failures);
    CHECK(bits == expected);
  }
  CHECK(failures > 60);
}

// Makes step `step` with a new optimizer for n = 1, 2, and so on. Each time, call n of the stepping thread fails.
void FailEachOwnCall(const char* root_device, uint64_t step) {
  for (int64_t n = 1;; ++n) {
    CAPTURE(n);
    REQUIRE(n < 500);
    const StageWithStream stream;
    Model model(HostRootsSpec({{"root_device", root_device}}), stream);
    model.FillParams(1);
    model.Train(1, step - 1);
    model.FillGradients(step);
    model.Bind();
    fake_cuda_fail_here(nullptr, n, n % 2 == 0 ? cudaErrorMemoryAllocation : cudaErrorUnknown);
    const shampoo_status status = shampoo_optimizer_step(model.optimizer, stream);
    if (fake_cuda_cancel_failures() != 0) return Must(status);
    CheckError(status, n % 2 == 0 ? SHAMPOO_E_NOMEM : SHAMPOO_E_DEVICE, "(...) failed: ");
    // If the step was made despite the failure, the next call may detect that the state has changed.
    if (const shampoo_status next = model.TryStep(); next != SHAMPOO_OK) CHECK(next == SHAMPOO_E_STATE);
    model.Train(step + 1, step + 3);
  }
}

TEST_CASE("each call of a step with root_async may fail" * doctest::test_suite("long")) {
  for (const char* root_device : {"device", "host"}) {
    for (const uint64_t step : {10, 13}) FailEachOwnCall(root_device, step);  // 10 takes snapshots, 13 uses their roots
  }
}

// The test writes a snapshot after the computation of its root has started. Therefore the step that uses the roots
// copies snapshots again, in its stream.
TEST_CASE("destroying an optimizer waits for copies of snapshots, also if a later one could not be enqueued" *
          NeedsFake()) {
  int64_t failures = 0;
  for (bool failed = true; failed;) {
    CAPTURE(failures);
    const StageWithStream stream(FAKE_CUDA_AS_LATE_AS_POSSIBLE);
    Model model(HostRootsSpec(), stream);
    model.FillParams(1);
    model.Train(1, 12);
    model.SetState("p0/0/snapshot.0", model.State("p0/0/snapshot.0"));
    model.FillGradients(13);
    model.Bind();
    fake_cuda_fail_here("cudaMemcpyAsync", failures + 1, cudaErrorUnknown);
    const shampoo_status status = shampoo_optimizer_step(model.optimizer, stream);
    failed = fake_cuda_cancel_failures() == 0;
    CHECK((status != SHAMPOO_OK) == failed);
    failures += failed ? 1 : 0;
    shampoo_optimizer_destroy(std::exchange(model.optimizer, nullptr));
    constexpr int64_t kFrees = 2;  // of state and workspace, in the order of a stream
    CHECK(fake_cuda_live(FAKE_CUDA_PENDING_OPERATIONS) == kFrees);
  }
  CHECK(failures > 10);
}

TEST_CASE("create reports that pinned memory is missing" * NeedsFake()) {
  const Stage stage;
  const PlanPtr plan = MakePlan(HostRootsSpec());
  for (const int64_t nth : {2, 3}) {  // the root solver makes the first call
    fake_cuda_fail("cudaHostAlloc", nth, cudaErrorMemoryAllocation);
    CheckCreateFails(plan.get(), DeviceDesc(), SHAMPOO_E_NOMEM, " bytes of pinned memory for root_device host");
  }
}

TEST_CASE("root_device host requires root_async on a GPU, and has no effect on the CPU") {
  UsePlugin();
  const auto status_of = [](const Keys& keys, int32_t device_type) {
    shampoo_config* config = nullptr;
    Must(shampoo_config_create(&config));
    for (const auto& [key, value] : keys) Must(shampoo_config_set_str(config, key.c_str(), value.c_str()));
    shampoo_plan_desc desc = SHAMPOO_PLAN_DESC_INIT;
    desc.device_type = device_type;
    shampoo_plan* plan = nullptr;
    const shampoo_status status = shampoo_plan_create(&plan, config, &desc);
    shampoo_plan_destroy(plan);
    shampoo_config_destroy(config);
    return status;
  };
  CheckError(status_of({{"root_device", "host"}}, SHAMPOO_CUDA), SHAMPOO_E_INVALID,
             "key root_device: the value host is not allowed with root_async 0");
  Must(status_of({{"root_device", "host"}}, SHAMPOO_CPU));
  Must(status_of({{"root_device", "host"}, {"root_async", "1"}}, SHAMPOO_CUDA));
}

}  // namespace
}  // namespace shampoo_test
