// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests async roots (key root_async), which are computed while steps continue.
#include "tests/cuda/contract/async_roots.h"

#include <chrono>
#include <cmath>
#include <functional>
#include <thread>

#include "tests/cuda/contract/pair.h"
#include "tests/cuda/tools/graph.h"

namespace shampoo_test {
namespace {

TEST_CASE("steps continue while roots are computed, and the step that uses the roots waits for them" * NeedsFake()) {
  const StageWithStream stream(FAKE_CUDA_AS_LATE_AS_POSSIBLE);
  Model model(AsyncRootsSpec(), stream);
  for (uint64_t t = 1; t <= 13; ++t) {
    model.FillGradients(t);
    fake_cuda_mark();
    model.Step();
    if (t == 10) fake_cuda_wait_for_jobs(1);
    CHECK((fake_cuda_count(FAKE_CUDA_EIGENPROBLEMS) > 0) == (t == 5 || t == 10));
    MustCuda(cudaStreamSynchronize(stream));
    CAPTURE(t);
    CHECK((fake_cuda_live(FAKE_CUDA_PENDING_OPERATIONS) > 0) == (t >= 10 && t < 13));
  }
}

TEST_CASE("destroying an optimizer waits for the roots that are being computed" * NeedsFake()) {
  StagedModel model(AsyncRootsSpec(), FAKE_CUDA_AS_LATE_AS_POSSIBLE);
  fake_cuda_mark();
  model.Train(1, 11);
  fake_cuda_wait_for_jobs(1);
  model.Wait();
  constexpr int64_t kFrees = 2;  // asynchronous frees of state and workspace
  CHECK(fake_cuda_live(FAKE_CUDA_PENDING_OPERATIONS) > kFrees);
  shampoo_optimizer_destroy(std::exchange(model.optimizer, nullptr));
  CHECK(fake_cuda_live(FAKE_CUDA_PENDING_OPERATIONS) == kFrees);
}

TEST_CASE(
    "a solver call that blocks its thread delays no step, and results do not depend on the speed of device or solvers" *
    NeedsFake()) {
  const std::vector<char> expected = TrainWithSolver(AsyncRootsSpec(), FAKE_CUDA_OLDEST_FIRST);
  for (const int order :
       {FAKE_CUDA_OLDEST_FIRST, FAKE_CUDA_YOUNGEST_FIRST, FAKE_CUDA_RANDOM, FAKE_CUDA_AS_LATE_AS_POSSIBLE}) {
    for (const int mode : {FAKE_CUDA_SOLVER_ENQUEUES, FAKE_CUDA_SOLVER_WAITS, FAKE_CUDA_SOLVER_IS_HELD}) {
      INFO("order ", order, ", mode ", mode);
      CHECK(TrainWithSolver(AsyncRootsSpec(), order, mode) == expected);
    }
  }
  // With root_spread, the roots of several steps are computed at the same time.
  const ModelSpec spread = AsyncRootsSpec("root_spread=true");
  CHECK(TrainWithSolver(spread, FAKE_CUDA_AS_LATE_AS_POSSIBLE, FAKE_CUDA_SOLVER_WAITS) ==
        TrainWithSolver(spread, FAKE_CUDA_OLDEST_FIRST));
}

TEST_CASE("a step that uses async roots waits until these roots are enqueued" * NeedsFake()) {
  const StageWithStream stream;
  Model model(AsyncRootsSpec(), stream);
  Model plain(AsyncRootsSpec(), stream);
  for (Model* const one : {&model, &plain}) one->Train(1, 9);
  plain.Train(10, 13);
  fake_cuda_set_solver(FAKE_CUDA_SOLVER_IS_HELD);
  model.Step(10);
  fake_cuda_wait_for_held_call();
  model.Train(11, 12);
  const DelayedRelease later;
  model.Step(13);
  CHECK(later.released());
  CHECK(BitsOf(model) == BitsOf(plain));
}

TEST_CASE("destroying an optimizer waits for roots that are being enqueued and drops roots that are not enqueued yet" *
          NeedsFake()) {
  StagedModel model(AsyncRootsSpec("root_spread=true"));
  fake_cuda_mark();
  model.Train(1, 11);
  fake_cuda_wait_for_jobs(2);
  fake_cuda_set_solver(FAKE_CUDA_SOLVER_IS_HELD);
  model.Train(12, 13);
  fake_cuda_wait_for_held_call();
  const DelayedRelease later;
  shampoo_optimizer_destroy(std::exchange(model.optimizer, nullptr));
  CHECK(later.released());
}

TEST_CASE("an optimizer may be destroyed at any time while its roots are being enqueued or the host computes them") {
  for (const auto& [spec, microseconds] : {std::pair{AsyncRootsSpec(), 50}, {HostRootsSpec(), 100}}) {
    for (int run = 0; run < 20; ++run) {
      StagedModel model(spec);
      model.Train(1, 10);
      std::this_thread::sleep_for(std::chrono::microseconds(microseconds * run));
    }
  }
}

TEST_CASE("if async roots cannot be enqueued, the next step outside of a capture returns the error" * NeedsFake()) {
  CheckThatFailuresChangeNothing(30, [](int64_t nth, std::vector<char>* bits) {
    StagedModel model(AsyncRootsSpec());
    model.Train(1, 9);
    fake_cuda_mark();
    if (nth > 0) fake_cuda_fail_elsewhere(nullptr, nth, ErrorOfCall(nth));
    model.Step(10);
    fake_cuda_wait_for_jobs(1);
    const bool has_failed = nth > 0 && fake_cuda_cancel_failures() == 0;
    const std::string function = has_failed ? fake_cuda_last_failed() : "";
    // If cuSOLVER fails for a batch, the eigenproblems are solved one by one, and no step returns an error.
    bool expects_error = has_failed && function.find("syev") == std::string::npos;
    model.FillGradients(11);
    const Graph captured(&model);
    for (uint64_t t = 11; t <= 13; ++t) {
      shampoo_status status = model.TryStep(t);
      // The CUDA call has failed, but the thread that made it may not have stored the error when step 11 begins.
      if (expects_error && status != SHAMPOO_OK) {
        CheckError(status, StatusOfCall(nth), "(...) failed: ");
        expects_error = false;
        status = model.TryStep();
      }
      Must(status);
    }
    CHECK(!expects_error);
    *bits = BitsOf(model);
    return has_failed;
  });
}

const Keys kRootDevices = "root_device=device root_device=host";

// Makes 19 steps on the device and on the CPU, and calls before(t, model) before each step t. Checks that parameters
// and states agree within 1e-3 from step 10 on.
void CheckCourseOn(const std::pair<std::string, std::string>& root_device,
                   const std::function<void(uint64_t t, Model* model)>& before, const Keys& more) {
  CAPTURE(root_device.second);
  for (const int order : {FAKE_CUDA_RANDOM, FAKE_CUDA_AS_LATE_AS_POSSIBLE}) {
    const StageWithStream stream(order);
    Pair pair(AsyncRootsSpec(Keys{root_device} + more), stream);
    for (uint64_t t = 1; t <= 19; ++t) {
      pair.Each([&](Model& model) {
        model.FillGradients(t);
        before(t, &model);
        model.Step();
      });
      if (t < 10) continue;
      CAPTURE(t);
      CHECK(pair.DifferingValues(1e-3) == "");
    }
    CHECK(pair.DifferingCounters() == "");
  }
}

void CheckCourse(const std::function<void(uint64_t t, Model* model)>& before, const Keys& more = {}) {
  for (const auto& root_device : kRootDevices) CheckCourseOn(root_device, before, more);
}

// Makes and checks the steps of CheckCourse(). Calls work(model) before step `when`. At that time, the roots of step 10
// must be pending: no step has used them.
void CheckBetween(uint64_t when, const std::function<void(Model* model)>& work) {
  CheckCourse([&](uint64_t t, Model* model) {
    if (t == when) work(model);
  });
}

void SetEpsilon(Model* model) { Must(shampoo_optimizer_set(model->optimizer, 0, "epsilon", 0.5)); }

TEST_CASE("steps agree with the CPU if a state or a key changes while async roots are pending") {
  for (const uint64_t when : {11, 13}) {
    CheckBetween(when, [](Model* model) {
      const std::string key = "p3/0/snapshot.0";
      std::vector<double> values = model->State(key);
      for (size_t i = 0; i < 6; ++i) values[i * 6 + i] += 2;
      model->SetState(key, values);
    });
    CheckBetween(when, SetEpsilon);
    CheckBetween(when, [](Model* model) { Must(shampoo_optimizer_set(model->optimizer, 0, "beta2", 0.5)); });
    CheckBetween(when, [](Model* model) { Must(shampoo_optimizer_set(model->optimizer, 0, "lr", 0.5)); });
    CheckBetween(when, [](Model* model) { model->DropGradient(0, true); });
  }
}

TEST_CASE("steps that are skipped while roots are computed do not stop the computation of these roots") {
  CheckCourse(
      [](uint64_t t, Model* model) {
        if (t >= 11 && t <= 16) model->SetGradient(0, std::vector<double>(model->elements(0), NAN));
      },
      {{"on_nonfinite", "skip_step"}});
}

TEST_CASE("blocks without a snapshot keep their roots if other blocks have a snapshot") {
  for (const bool sets_epsilon : {false, true}) {
    CAPTURE(sets_epsilon);
    for (const uint64_t at : {10, 13}) {
      CheckCourse([&](uint64_t t, Model* model) {
        model->DropGradient(3, t == at);
        if (sets_epsilon && t == 12) SetEpsilon(model);
      });
      CheckCourse(
          [&](uint64_t t, Model* model) {
            if (t == at) model->SpoilGradient(3, 7, NAN);
            // If `at` is 13, step 13 skips the block of p3, so the roots of p3 are still pending before step 14.
            if (sets_epsilon && t == (at == 10 ? 12 : 14)) SetEpsilon(model);
          },
          {{"on_nonfinite", "skip_block"}});
    }
    CheckCourse([&](uint64_t t, Model* model) {
      if (t == 13) model->SetState("p3/0/snapshot_step", {sets_epsilon ? 9.0 : 0.0});
    });
  }
}

TEST_CASE("the host recomputes an async root that failed on the device, and the root is used one step late" *
          NeedsFake()) {
  for (int64_t run = 1; run <= 12; ++run) {  // run number `run` of an eigensolver fails
    CAPTURE(run);
    const StageWithStream stream;
    ModelSpec spec = AsyncRootsSpec();
    // From size 128 on, a factor matrix and its root share an array.
    spec.params.push_back({{130, 3}, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F64});
    Pair pair(spec, stream);
    for (uint64_t t = 1; t <= 16; ++t) {
      if (t == 10) fake_cuda_fail_eigen(run, -1, FAKE_CUDA_EIGEN_INFO, 3);
      pair.StepBoth(t);
      // The step that would use the root uses the old root; the next step uses the recovered root.
      if (t == 13) pair.device.MustSucceed();
    }
    pair.device.MustSucceed();
    CHECK(pair.device.Stat("root_retried") > 0);
    CHECK(pair.device.Stat("root_reused") == 0);
    CHECK(pair.device.Stat("root_computed") == pair.host.Stat("root_computed"));
    for (const std::string& key : pair.host.Keys()) {
      if (key.find("inverse") == std::string::npos && key.find("factor") == std::string::npos) continue;
      CAPTURE(key);
      CHECK(Distance(pair.device.State(key), pair.host.State(key)) < 1e-3);
    }
  }
}

TEST_CASE("another arena may be bound while the device or the host computes roots") {
  for (const auto& root_device : kRootDevices) {
    for (const bool announced : {false, true}) {
      INFO("root_device ", root_device.second, ", announced ", announced);
      const StageWithStream stream;
      const ModelSpec spec = AsyncRootsSpec({root_device});
      Model plain(spec, stream);
      Model model(spec, stream);
      const StateArena arenas[] = {StateArena(spec, stream), StateArena(spec, stream)};
      for (uint64_t t = 1; t <= 19; ++t) {
        // This call announces that other code has written the state, so the pending roots are computed again.
        if (announced && t == 12) Must(shampoo_optimizer_bind_state(model.optimizer, nullptr, nullptr));
        Must(shampoo_optimizer_bind_state(model.optimizer, arenas[t % 2].get(), arenas[1 - t % 2].get()));
        fake_cuda_mark();
        for (Model* one : {&plain, &model}) one->Step(t);
        if (root_device.second == "host") continue;
        CAPTURE(t);
        if (t == 10 || t == 15) fake_cuda_wait_for_jobs(2);
        if (!OnFake()) continue;
        // The host knows the counters that its steps have written. It reads counters from the device only if other code
        // may have written them.
        CHECK((fake_cuda_count(FAKE_CUDA_COPIES_TO_HOST) > 0) == (t == 1 || (announced && t == 12)));
        CHECK((fake_cuda_count(FAKE_CUDA_EIGENPROBLEMS) > 0) == (t % 5 == 0 || (announced && t == 13)));
      }
      CHECK(BitsOf(model) == BitsOf(plain));
    }
  }
}

void CheckOtherState(const Keys& more) {
  const StageWithStream stream;
  const ModelSpec spec = AsyncRootsSpec(more);
  Model model(spec, stream);
  const StateArena arena(spec, stream);
  Model other(arena.In(spec), stream);
  model.Train(1, 11);
  other.Train(101, 111);
  // From here on, both optimizers continue from the state of `other`: `model` uses a copy of this state.
  const DeviceBytes copy(arena.bytes());
  MustCuda(cudaMemcpyAsync(copy.get(), arena.get(), arena.bytes(), cudaMemcpyDeviceToDevice, stream));
  Must(shampoo_optimizer_bind_state(model.optimizer, copy.get(), copy.get()));
  model.SetParamsOf(other);
  model.Train(112, 114);
  other.Train(112, 114);
  CHECK(BitsOf(model) == BitsOf(other));
}

TEST_CASE("async roots that were computed from one state are not used with another state") {
  for (const auto& root_device : kRootDevices) CheckOtherState({root_device});
}

void CheckCaptures(const Keys& more) {
  StagedModel model(AsyncRootsSpec(more));
  for (uint64_t t = 1; t <= 13; ++t) {
    model.FillGradients(t);
    model.Bind();
    CAPTURE(t);
    if (t == 10 || t == 13) {
      const Graph empty(&model, SHAMPOO_E_STATE, t == 10 ? "are due at step" : "are put into use at step");
      CHECK(std::string(shampoo_last_error()).find("root_async=3") != std::string::npos);
    }
    model.Step();
  }
  // Captures an ordinary step, and replays it until a replay is rejected.
  const Graph graph(&model);
  graph.Launch();
  CHECK(model.State("group.0/step")[0] == 14);
  graph.Launch();  // rejected, because step 15 would take a snapshot
  CheckError(model.Status(), SHAMPOO_E_STATE,
             "but this step needs work that was not captured: it computes inverse roots");
  CHECK(model.State("group.0/step")[0] == 14);
  model.Train(15, 17);
  graph.Launch();  // rejected, because step 18 would use the roots of the snapshot
  CHECK(model.Status() == SHAMPOO_E_STATE);
  CHECK(model.State("group.0/step")[0] == 17);
}

TEST_CASE("a step that takes a snapshot or first uses pending roots is neither captured nor replayed") {
  for (const auto& root_device : kRootDevices) CheckCaptures({root_device});
}

}  // namespace
}  // namespace shampoo_test
