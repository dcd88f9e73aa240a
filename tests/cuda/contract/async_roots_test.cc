// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Async roots: roots that are computed while steps continue (root_async).
#include <cmath>
#include <functional>

#include "tests/cuda/contract/pair.h"

namespace shampoo_test {
namespace {

// Roots are used from step 5 on; those of step 10 from step 13 on; those of step 15 from step 18 on.
ModelSpec AsyncOfThree(const Keys& more = {}) {
  Keys keys = {{"precondition_frequency", "5"}, {"root_async", "3"}, {"beta2", "0.9"}};
  keys.insert(keys.end(), more.begin(), more.end());
  return FiveShapes(keys);
}

TEST_CASE("steps continue while roots are computed, and the step that uses the roots waits for them" * NeedsFake()) {
  const Stage stage(FAKE_CUDA_AS_LATE_AS_POSSIBLE);
  const TestStream stream;
  Model model(AsyncOfThree(), stream);
  model.FillParams(1);
  for (uint64_t t = 1; t <= 13; ++t) {
    model.FillGradients(t);
    fake_cuda_mark();
    model.Step();
    CHECK((fake_cuda_count(FAKE_CUDA_EIGENPROBLEMS) > 0) == (t == 5 || t == 10));
    MustCuda(cudaStreamSynchronize(stream));
    CAPTURE(t);
    CHECK((fake_cuda_live(FAKE_CUDA_PENDING_OPERATIONS) > 0) == (t >= 10 && t < 13));
  }
}

TEST_CASE("destroying an optimizer waits for the roots that are being computed" * NeedsFake()) {
  const Stage stage(FAKE_CUDA_AS_LATE_AS_POSSIBLE);
  const TestStream stream;
  Model model(AsyncOfThree(), stream);
  model.FillParams(1);
  for (uint64_t t = 1; t <= 11; ++t) {
    model.FillGradients(t);
    model.Step();
  }
  model.Wait();
  constexpr int64_t kFrees = 2;  // of state and workspace, in the order of a stream
  CHECK(fake_cuda_live(FAKE_CUDA_PENDING_OPERATIONS) > kFrees);
  shampoo_optimizer_destroy(std::exchange(model.optimizer, nullptr));
  CHECK(fake_cuda_live(FAKE_CUDA_PENDING_OPERATIONS) == kFrees);
}

// Calls `before` before each step on device and CPU. Both must have the same states from step 10 on.
void CheckCourse(const std::function<void(uint64_t t, Model* model)>& before, const Keys& more = {}) {
  for (const int order : {FAKE_CUDA_RANDOM, FAKE_CUDA_AS_LATE_AS_POSSIBLE}) {
    const Stage stage(order);
    const TestStream stream;
    Pair pair(AsyncOfThree(more), stream);
    for (uint64_t t = 1; t <= 19; ++t) {
      pair.Each([&](Model& model) {
        model.FillGradients(t);
        before(t, &model);
        model.Step();
      });
      if (t < 10) continue;
      CAPTURE(t);
      CHECK(pair.Apart() < 1e-3);
    }
    CHECK(pair.DifferingCounters() == "");
  }
}

// Writes happen between a refresh and the step that uses its roots.
void CheckBetween(uint64_t when, const std::function<void(Model* model)>& work) {
  CheckCourse([&](uint64_t t, Model* model) {
    if (t == when) work(model);
  });
}

void SetEpsilon(Model* model) { Must(shampoo_optimizer_set(model->optimizer, 0, "epsilon", 0.5)); }

TEST_CASE("data written between a refresh and the step that uses its roots takes effect") {
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

TEST_CASE("steps that are skipped while roots are computed do not stop the roots") {
  CheckCourse(
      [](uint64_t t, Model* model) {
        if (t >= 11 && t <= 16) model->SetGradient(0, std::vector<double>(model->elements(0), NAN));
      },
      {{"on_nonfinite", "skip_step"}});
}

TEST_CASE("blocks without a snapshot keep their roots if other blocks have one") {
  for (const bool sets_epsilon : {false, true}) {
    CAPTURE(sets_epsilon);
    CheckCourse([&](uint64_t t, Model* model) {
      model->DropGradient(3, t == 10);
      if (sets_epsilon && t == 12) SetEpsilon(model);
    });
    CheckCourse([&](uint64_t t, Model* model) {
      model->DropGradient(3, t == 13);
      if (sets_epsilon && t == 12) SetEpsilon(model);
    });
    const Keys skips = {{"on_nonfinite", "skip_block"}};
    const auto skipped = [&](uint64_t t, Model* model) {
      std::vector<double> bad = Sequence(3, model->elements(3));
      bad[7] = NAN;
      if (t == 10) model->SetGradient(3, bad);
      if (sets_epsilon && t == 12) SetEpsilon(model);
    };
    CheckCourse(skipped, skips);
    CheckCourse(
        [&](uint64_t t, Model* model) {  // used at step 14
          std::vector<double> bad = Sequence(3, model->elements(3));
          bad[7] = NAN;
          if (t == 13) model->SetGradient(3, bad);
          if (sets_epsilon && t == 14) SetEpsilon(model);
        },
        skips);
    CheckCourse([&](uint64_t t, Model* model) {
      if (t == 13) model->SetState("p3/0/snapshot_step", {sets_epsilon ? 9.0 : 0.0});
    });
  }
}

TEST_CASE("a root that fails while steps continue is computed by the host when it is used" * NeedsFake()) {
  for (int64_t run = 1; run <= 12; ++run) {  // by shape and dim
    CAPTURE(run);
    const Stage stage;
    const TestStream stream;
    ModelSpec spec = AsyncOfThree();
    spec.params.push_back(
        {{130, 3}, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F64});  // a factor matrix and its root share an array
    Pair pair(spec, stream);
    for (uint64_t t = 1; t <= 16; ++t) {
      if (t == 10) fake_cuda_fail_eigen(run, -1, FAKE_CUDA_EIGEN_INFO, 3);
      pair.StepBoth(t);
      // The step that would use the root uses the old one; the next step uses the recovered root.
      if (t == 13) Must(shampoo_optimizer_status(pair.device.optimizer, 1, nullptr));
    }
    Must(shampoo_optimizer_status(pair.device.optimizer, 1, nullptr));
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

TEST_CASE("steps may change the arena while roots are computed") {
  for (const bool announced : {false, true}) {
    const Stage stage;
    const TestStream stream;
    ModelSpec spec = AsyncOfThree();
    Model plain(spec, stream);
    Model model(spec, stream);
    int64_t bytes = 0;
    Must(shampoo_plan_bytes(model.plan, 0, "state", &bytes));
    const DeviceBytes arenas[] = {DeviceBytes(static_cast<size_t>(bytes)), DeviceBytes(static_cast<size_t>(bytes))};
    spec.state = arenas[1].get();
    spec.state_bytes = static_cast<size_t>(bytes);
    { const Model fresh(spec, stream); }
    plain.FillParams(1);
    model.FillParams(1);
    for (uint64_t t = 1; t <= 19; ++t) {
      // Roots of a state that other code has written are computed again.
      if (announced && t == 12) Must(shampoo_optimizer_bind_state(model.optimizer, nullptr, nullptr));
      Must(shampoo_optimizer_bind_state(model.optimizer, arenas[t % 2].get(), arenas[1 - t % 2].get()));
      fake_cuda_mark();
      for (Model* one : {&plain, &model}) {
        one->FillGradients(t);
        one->Step();
      }
      CAPTURE(t);
      if (!OnFake()) continue;
      CHECK((fake_cuda_count(FAKE_CUDA_EIGENPROBLEMS) > 0) == (t % 5 == 0 || (announced && t == 13)));
    }
    CHECK(BitsOf(model) == BitsOf(plain));
  }
}

TEST_CASE("roots of one state are not used with another state") {
  const Stage stage;
  const TestStream stream;
  ModelSpec spec = AsyncOfThree();
  Model model(spec, stream);
  int64_t bytes = 0;
  Must(shampoo_plan_bytes(model.plan, 0, "state", &bytes));
  const DeviceBytes arena(static_cast<size_t>(bytes));
  spec.state = arena.get();
  spec.state_bytes = static_cast<size_t>(bytes);
  Model other(spec, stream);
  model.FillParams(1);
  other.FillParams(1);
  const auto train = [](Model* one, uint64_t from, uint64_t to, uint64_t seed) {
    for (uint64_t t = from; t <= to; ++t) {
      one->FillGradients(t + seed);
      one->Step();
    }
  };
  train(&model, 1, 11, 0);
  train(&other, 1, 11, 100);
  // From here on, each optimizer steps the state of the other, in its own arena.
  const DeviceBytes copy(static_cast<size_t>(bytes));
  MustCuda(cudaMemcpyAsync(copy.get(), arena.get(), spec.state_bytes, cudaMemcpyDeviceToDevice, stream));
  Must(shampoo_optimizer_bind_state(model.optimizer, copy.get(), copy.get()));
  for (size_t p = 0; p < model.params(); ++p) model.SetParam(p, other.ParamValues(p));
  train(&model, 12, 14, 100);
  train(&other, 12, 14, 100);
  CHECK(BitsOf(model) == BitsOf(other));
}

TEST_CASE("a step that takes a snapshot or uses its roots is neither captured nor replayed") {
  const Stage stage;
  const TestStream stream;
  Model model(AsyncOfThree(), stream);
  model.FillParams(1);
  for (uint64_t t = 1; t <= 13; ++t) {
    model.FillGradients(t);
    model.Bind();
    CAPTURE(t);
    if (t == 10 || t == 13) {
      MustCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
      CHECK(model.TryStep() == SHAMPOO_E_STATE);
      const std::string text = shampoo_last_error();
      cudaGraph_t graph = nullptr;
      MustCuda(cudaStreamEndCapture(stream, &graph));
      MustCuda(cudaGraphDestroy(graph));
      CHECK(text.find(t == 10 ? "inverse roots are due" : "inverse roots are taken over") != std::string::npos);
      CHECK(text.find("root_async 3") != std::string::npos);
    }
    model.Step();
  }
  // Captures an ordinary step and replays it up to a step that cannot be replayed.
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  MustCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(model.TryStep() == SHAMPOO_OK);
  MustCuda(cudaStreamEndCapture(stream, &graph));
  MustCuda(cudaGraphInstantiate(&exec, graph, 0));
  MustCuda(cudaGraphLaunch(exec, stream));
  CHECK(model.State("group.0/step")[0] == 14);
  MustCuda(cudaGraphLaunch(exec, stream));  // 15 takes a snapshot
  Model* const of = &model;
  CHECK(shampoo_optimizer_status(of->optimizer, 1, nullptr) == SHAMPOO_E_STATE);
  CHECK(std::string(shampoo_last_error()).find("due or taken over") != std::string::npos);
  CHECK(model.State("group.0/step")[0] == 14);
  for (uint64_t t = 15; t <= 17; ++t) {
    model.FillGradients(t);
    model.Step();
  }
  MustCuda(cudaGraphLaunch(exec, stream));  // 18 uses its roots
  CHECK(shampoo_optimizer_status(of->optimizer, 1, nullptr) == SHAMPOO_E_STATE);
  CHECK(model.State("group.0/step")[0] == 17);
  MustCuda(cudaGraphExecDestroy(exec));
  MustCuda(cudaGraphDestroy(graph));
}

}  // namespace
}  // namespace shampoo_test
