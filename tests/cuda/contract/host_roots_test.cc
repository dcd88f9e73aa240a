// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests async roots that are computed on the host (root_device=host). async_roots_test.cc tests the behavior that these
// roots share with async roots on the device.
#include <cfloat>
#include <cmath>

#include "tests/core/temporary_directory.h"
#include "tests/cuda/contract/async_roots.h"
#include "tests/cuda/contract/pair.h"
#include "tests/cuda/tools/device_ranks.h"

namespace shampoo_test {
namespace {

TEST_CASE("steps continue while the host computes roots, and the speeds of device and host do not affect results" *
          NeedsFake()) {
  const std::vector<char> expected = TrainWithSolver(HostRootsSpec(), FAKE_CUDA_OLDEST_FIRST);
  for (const int order :
       {FAKE_CUDA_OLDEST_FIRST, FAKE_CUDA_YOUNGEST_FIRST, FAKE_CUDA_RANDOM, FAKE_CUDA_AS_LATE_AS_POSSIBLE}) {
    CAPTURE(order);
    CHECK(TrainWithSolver(HostRootsSpec(), order) == expected);
    CHECK(TrainWithSolver(HostRootsSpec(), order, FAKE_CUDA_SOLVER_IS_HELD) == expected);
  }
  ModelSpec threads = HostRootsSpec();
  threads.threads = 3;
  CHECK(TrainWithSolver(threads, FAKE_CUDA_RANDOM) == expected);
  const ModelSpec without_lag = HostRootsSpec("status_lag=0");
  CHECK(TrainWithSolver(without_lag, FAKE_CUDA_AS_LATE_AS_POSSIBLE, FAKE_CUDA_SOLVER_IS_HELD) == expected);
}

// Trains shard ranks for 14 steps. Returns DeviceRanks::Bits().
std::vector<std::vector<char>> TrainShardsOnHost(int order, const RankKind& kind, const Keys& lag) {
  const Stage stage(order);
  DeviceRanks ranks(HostRootsSpec(lag), kind);
  for (uint64_t t = 1; t <= 14; ++t) {
    if (t == 10) fake_cuda_mark();
    ranks.Train(t, t);
  }
  CHECK(fake_cuda_count(FAKE_CUDA_EIGENPROBLEMS) == 0);  // the host computes the roots of step 10
  ranks.MustSucceed();
  return ranks.Bits();
}

void CheckShardsOnHost(const RankKind& kind, const Keys& lag) {
  INFO(NameOf(kind), " ", lag);
  const auto expected = TrainShardsOnHost(FAKE_CUDA_OLDEST_FIRST, kind, lag);
  CHECK(TrainShardsOnHost(FAKE_CUDA_AS_LATE_AS_POSSIBLE, kind, lag) == expected);
}

TEST_CASE("shard ranks compute roots on the host, and results are bit-identical for all orders of streams" *
          NeedsFake()) {
  CheckShardsOnHost({"local", 1, 2}, {{"status_lag", "0"}});
  CheckShardsOnHost({"gather", 1, 2}, {{"status_lag", "1"}});
}

TEST_CASE(
    "shard ranks and their replicas compute roots on the host, and results are bit-identical for all orders of "
    "streams" *
    doctest::test_suite("long")) {
  for (const RankKind& kind : {RankKind{"local", 1, 3}, {"local", 2, 2}, {"gather", 1, 3}, {"gather", 2, 2}}) {
    for (const Keys& lag : kLags) CheckShardsOnHost(kind, lag);
  }
}

TEST_CASE(
    "steps with roots on the host allocate nothing and use no pageable memory and solve no eigenproblem on the device" *
    NeedsFake()) {
  const StageWithStream stream(FAKE_CUDA_AS_LATE_AS_POSSIBLE);
  Model model(HostRootsSpec(), stream);
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
  const auto [lowest, highest] = streams_with("root_async=0 root_device=device");
  CHECK(highest > 0);
  CHECK(streams_with("root_device=device") == std::pair(lowest + 1, highest));
  CHECK(streams_with("root_device=host") == std::pair(lowest + 1, highest));
}

TEST_CASE("the counts of roots on the host, by root method and rung, are those of the CPU backend") {
  for (const Keys& keys : {Keys("root_method=newton root_max_iterations=2 epsilon=1e-6"), Keys("root_method=eigen"),
                           Keys("root_dtype=f64")}) {
    const StageWithStream stream;
    Pair pair(HostRootsSpec(keys), stream);
    pair.Train(1, 9);
    pair.device.MustSucceed();
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
    pair.device.MustSucceed();
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

// Both optimizers of the pair compute roots with the same method, so their statistics differ only because their factor
// matrices have different rounding errors. On a GPU, residuals that consist of rounding errors agree only in magnitude.
// They are a few machine epsilons of float32, the dtype of the stored roots. On the fake, most rounding errors equal
// those of the CPU.
TEST_CASE("residuals of roots on the host are close to those of the CPU backend, and tracking them changes no result") {
  const double rounding = OnFake() ? 0 : 16 * static_cast<double>(FLT_EPSILON);
  for (const Keys& keys : {Keys("root_dtype=f32"), Keys("root_dtype=f64"),
                           Keys("root_method=newton root_max_iterations=12 epsilon=0.1")}) {
    for (const Keys& lag : kLags) {
      const Keys more = keys + lag;
      CAPTURE(more);
      const StageWithStream stream;
      Pair pair(HostRootsSpec(more + Keys("track_root_residuals=true")), stream);
      Model plain(HostRootsSpec(more), stream);
      pair.Train(1, 18);
      plain.Train(1, 18);
      pair.device.MustSucceed();
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

TEST_CASE("training continues bit-identically from a checkpoint that was saved while the host computed roots") {
  const StageWithStream stream;
  const shampoo::TemporaryDirectory folder;
  Model first(HostRootsSpec(), stream);
  Model second(HostRootsSpec(), stream);
  first.Train(1, 11);
  first.Save(folder.path());
  second.Load(folder.path());
  second.SetParamsOf(first);
  first.Train(12, 19);
  second.Train(12, 19);
  CHECK(BitsOf(second) == BitsOf(first));
}

TEST_CASE("destroying an optimizer waits for the thread that computes roots on the host" * NeedsFake()) {
  StagedModel model(HostRootsSpec());
  model.Train(1, 9);
  fake_cuda_set_solver(FAKE_CUDA_SOLVER_IS_HELD);
  model.Step(10);
  fake_cuda_wait_for_held_call();
  const DelayedRelease later;
  shampoo_optimizer_destroy(std::exchange(model.optimizer, nullptr));
  CHECK(later.released());
}

TEST_CASE("an error of the thread that computes roots on the host is returned by a later step" * NeedsFake()) {
  CheckThatFailuresChangeNothing(60, [](int64_t nth, std::vector<char>* bits) {
    StagedModel model(HostRootsSpec());
    model.Train(1, 9);
    if (nth > 0) fake_cuda_fail_elsewhere(nullptr, nth, ErrorOfCall(nth));
    bool expects_error = nth > 0;
    bool has_failed = false;
    for (uint64_t t = 10; t <= 13; ++t) {
      shampoo_status status = model.TryStep(t);
      if (expects_error && status != SHAMPOO_OK) {
        CheckError(status, StatusOfCall(nth), "(...) failed: ");
        expects_error = false;
        has_failed = true;
        status = model.TryStep();
      }
      Must(status);
    }
    CHECK(has_failed == (fake_cuda_cancel_failures() == 0 && nth > 0));
    *bits = BitsOf(model);
    return has_failed;
  });
}

// For n = 1, 2 and so on, makes step `step` with a new optimizer, while call n of CUDA on this thread fails. Returns
// when the step makes fewer than n calls.
void FailEachOwnCall(const char* root_device, uint64_t step) {
  for (int64_t n = 1;; ++n) {
    CAPTURE(n);
    REQUIRE(n < 500);
    const StageWithStream stream;
    Model model(HostRootsSpec({{"root_device", root_device}}), stream);
    model.Train(1, step - 1);
    model.FillGradients(step);
    model.Bind();
    fake_cuda_fail_here(nullptr, n, ErrorOfCall(n));
    const shampoo_status status = shampoo_optimizer_step(model.optimizer, stream);
    if (fake_cuda_cancel_failures() != 0) return Must(status);
    CheckError(status, StatusOfCall(n), "(...) failed: ");
    // The device may have made the step despite the error. Then the next step may fail, because the state has changed.
    // All later steps succeed.
    if (const shampoo_status next = model.TryStep(); next != SHAMPOO_OK) CHECK(next == SHAMPOO_E_STATE);
    model.Train(step + 1, step + 3);
  }
}

TEST_CASE("if a call of CUDA fails in a step with root_async then the step returns the error and later steps succeed" *
          doctest::test_suite("long")) {
  for (const char* root_device : {"device", "host"}) {
    // Step 10 takes snapshots, and step 13 uses their roots.
    for (const uint64_t step : {10, 13}) FailEachOwnCall(root_device, step);
  }
}

// The test writes a snapshot after the computation of its root has started, so this computation cannot be used. The
// step that uses the roots therefore starts the computation again, and first copies the snapshots in the stream of the
// step.
TEST_CASE("destroying an optimizer waits for copies of snapshots, also if a later copy could not be enqueued" *
          NeedsFake()) {
  int64_t failures = 0;
  for (bool failed = true; failed;) {
    CAPTURE(failures);
    const StageWithStream stream(FAKE_CUDA_AS_LATE_AS_POSSIBLE);
    Model model(HostRootsSpec(), stream);
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
    constexpr int64_t kFrees = 2;  // asynchronous frees of state and workspace
    CHECK(fake_cuda_live(FAKE_CUDA_PENDING_OPERATIONS) == kFrees);
  }
  CHECK(failures > 10);
}

TEST_CASE("create fails if pinned memory for roots on the host cannot be allocated" * NeedsFake()) {
  const Stage stage;
  const PlanPtr plan = MakePlan(HostRootsSpec());
  for (const int64_t nth : {2, 3}) {  // the root solver makes the first call
    fake_cuda_fail("cudaHostAlloc", nth, cudaErrorMemoryAllocation);
    CheckCreateFails(plan.get(), DeviceDesc(), SHAMPOO_E_NOMEM, " bytes of pinned memory for root_device=host");
  }
}

TEST_CASE("root_device=host requires root_async on a GPU and has no effect on the CPU") {
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
  CheckError(status_of("root_device=host", SHAMPOO_CUDA), SHAMPOO_E_INVALID,
             "key root_device: the value host is not allowed with root_async=0");
  Must(status_of("root_device=host", SHAMPOO_CPU));
  Must(status_of("root_device=host root_async=1", SHAMPOO_CUDA));
}

}  // namespace
}  // namespace shampoo_test
