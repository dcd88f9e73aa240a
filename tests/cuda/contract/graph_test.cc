// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests steps that are captured into a CUDA graph, and replays of these steps.
#include "tests/cuda/tools/graph.h"

#include <algorithm>
#include <functional>
#include <thread>

namespace shampoo_test {
namespace {

// Roots are due at steps 5 and 10. Steps 1 to 4 use only the grafting method.
ModelSpec GraphSpec(const Keys& more = {}) { return FiveShapes(Keys("precondition_frequency=5") + more); }

// A number in device memory. Set() enqueues the write of a new value in the stream.
class DeviceNumber {
 public:
  DeviceNumber(int32_t dtype, cudaStream_t stream) : dtype_(dtype), stream_(stream), memory_(8), pinned_(2) {}
  void Set(double value) {
    MustCuda(cudaStreamSynchronize(stream_));
    if (dtype_ == SHAMPOO_F64) {
      *reinterpret_cast<double*>(pinned_.get()) = value;
    } else {
      *pinned_.get() = static_cast<float>(value);
    }
    MustCuda(cudaMemcpyAsync(memory_.get(), pinned_.get(), 8, cudaMemcpyHostToDevice, stream_));
  }
  void Bind(shampoo_optimizer* optimizer, const char* key) const {
    Must(shampoo_optimizer_bind_scalar(optimizer, 0, key, dtype_, memory_.get()));
  }
  ~DeviceNumber() { (void)cudaStreamSynchronize(stream_); }
  DeviceNumber(const DeviceNumber&) = delete;
  DeviceNumber& operator=(const DeviceNumber&) = delete;

 private:
  int32_t dtype_;
  cudaStream_t stream_;
  DeviceBytes memory_;
  PinnedFloats pinned_;
};

double LrAt(int t) { return 0.125 / t; }
double ScaleAt(int t) { return t % 2 == 0 ? 0.5 : 2.0; }

// With these keys, roots are due at steps 4, 6, 9, 13 and 18.
const Keys kGrowing = "refresh_growth=0.5 start_preconditioning_step=4";

void CheckThatReplaysAreSteps(const Keys& keys, int start, const std::vector<int>& refreshes) {
  for (const Keys& lag : kLags) {
    for (const int order : {int{FAKE_CUDA_OLDEST_FIRST}, int{FAKE_CUDA_YOUNGEST_FIRST}, int{FAKE_CUDA_RANDOM}}) {
      INFO(lag, ", order ", order);
      const StageWithStream stream(order);
      Model plain(GraphSpec(keys), stream);
      Model captured(GraphSpec(keys + lag), stream);
      DeviceNumber lr(SHAMPOO_F64, stream);
      DeviceNumber scale(SHAMPOO_F32, stream);
      lr.Bind(captured.optimizer, "lr");
      scale.Bind(captured.optimizer, "gradient_scale");
      std::unique_ptr<Graph> before;  // captured before the first roots are computed
      std::unique_ptr<Graph> after;   // captured afterwards
      for (int t = 1; t <= 14; ++t) {
        CAPTURE(t);
        plain.FillGradients(static_cast<uint64_t>(t));
        captured.FillGradients(static_cast<uint64_t>(t));
        Must(shampoo_optimizer_set(plain.optimizer, 0, "lr", LrAt(t)));
        Must(shampoo_optimizer_set(plain.optimizer, 0, "gradient_scale", ScaleAt(t)));
        lr.Set(LrAt(t));
        scale.Set(ScaleAt(t));
        plain.Step();
        if (t == 2) before = std::make_unique<Graph>(&captured);
        if (t == 7) after = std::make_unique<Graph>(&captured);
        const bool is_refresh = std::find(refreshes.begin(), refreshes.end(), t) != refreshes.end();
        if (t == 1 || (t >= start && t < 7) || is_refresh) {
          captured.Step();
        } else {
          (t < start ? before : after)->Launch();
        }
        // Reads the state only every fourth step, because reading also updates the step number that the host knows.
        if (t % 4 == 0) CHECK(BitsOf(captured) == BitsOf(plain));
      }
      CHECK(BitsOf(captured) == BitsOf(plain));
      CHECK(captured.Stat("step.0") == 14);
      CHECK(captured.State("group.0/step")[0] == 14);
      captured.MustSucceed();
      CHECK(captured.Stat("steps") == 14);
    }
  }
}

TEST_CASE("a replay makes a step with the current hyper-parameters and the step counter of the state") {
  SUBCASE("roots at multiples of the frequency") { CheckThatReplaysAreSteps({}, 5, {5, 10}); }
  SUBCASE("roots at steps that refresh_growth determines") { CheckThatReplaysAreSteps(kGrowing, 4, {4, 6, 9, 13}); }
}

TEST_CASE("capturing a step waits for nothing and reads no reports and launches nothing" * NeedsFake()) {
  StagedModel model(GraphSpec(), FAKE_CUDA_AS_LATE_AS_POSSIBLE);
  model.Step(1);
  const int64_t pending = fake_cuda_live(FAKE_CUDA_PENDING_OPERATIONS);
  fake_cuda_mark();
  const Graph graph(&model);
  CHECK(fake_cuda_count(FAKE_CUDA_SYNCHRONIZATIONS) == 0);
  CHECK(fake_cuda_count(FAKE_CUDA_COPIES_TO_HOST) == 0);
  CHECK(fake_cuda_count(FAKE_CUDA_ALLOCATIONS) == 0);
  CHECK(fake_cuda_count(FAKE_CUDA_QUERIES) == 0);
  CHECK(fake_cuda_live(FAKE_CUDA_PENDING_OPERATIONS) == pending);
  CHECK(model.State("group.0/step")[0] == 1);
}

TEST_CASE("a function that would wait for a captured stream returns an error, and the capture continues") {
  const StageWithStream stream;
  Model model(GraphSpec(), stream);
  model.Step(1);
  const Graph graph(stream, [&] {
    model.Step();
    double step = -1;
    CheckError(shampoo_optimizer_stat(model.optimizer, "step.0", &step), SHAMPOO_E_STATE, "outside of the capture");
    CHECK(step == -1);
  });
  graph.Launch();
  CHECK(model.Stat("step.0") == 2);
}

// In the global capture mode, which PyTorch uses, a capture becomes invalid if any thread makes a call that might wait
// for the captured stream. In this test, the captured stream synchronizes with the legacy default stream. The stream of
// the optimizer does not synchronize with the legacy default stream.
TEST_CASE("no call except destroy invalidates a capture of another thread") {
  const Stage stage;
  const TestStream captured(cudaStreamDefault);
  const TestStream stream;
  const DeviceBytes set(4);
  const auto capture = [&](const char* call, const std::function<void()>& work) {
    CAPTURE(std::string(call));
    const Graph graph(captured, [&] {
      MustCuda(cudaMemsetAsync(set.get(), 0, 4, captured));
      std::thread(work).join();
    });
  };
  for (const Keys& lag : kLags) {
    CAPTURE(lag);
    Model model(GraphSpec(lag + Keys("root_async=1")), stream);
    shampoo_optimizer* other = nullptr;
    capture("create", [&] {
      shampoo_optimizer_desc desc = DeviceDesc();
      desc.stream = stream;
      CHECK(shampoo_optimizer_create(&other, model.plan.get(), &desc) == SHAMPOO_OK);
    });
    shampoo_optimizer_destroy(other);
    for (uint64_t t = 1; t <= 7; ++t) {
      model.FillGradients(t);
      capture("step", [&] { CHECK(model.TryStep() == SHAMPOO_OK); });
    }
    capture("status", [&] { CHECK(model.Status() == SHAMPOO_OK); });
    capture("stat", [&] { CHECK(model.Stat("step.0") == 7); });
    std::vector<float> values(model.elements(0));
    const auto bytes = values.size() * sizeof(float);
    capture("read", [&] {
      CHECK(shampoo_state_read(model.optimizer, 1, 0, 1, values.data(), bytes, SHAMPOO_CPU, stream) == SHAMPOO_OK);
    });
    capture("write", [&] {
      CHECK(shampoo_state_write(model.optimizer, 1, 0, 1, values.data(), bytes, SHAMPOO_CPU, stream) == SHAMPOO_OK);
    });
  }
}

TEST_CASE("a step at which roots are due fails during a capture, and the capture stays valid") {
  for (const int due : {5, 10}) {
    CAPTURE(due);
    const StageWithStream stream;
    Model model(GraphSpec(), stream);
    Model plain(GraphSpec(), stream);
    for (Model* one : {&model, &plain}) {
      one->FillGradients(1);
      for (int t = 1; t < due; ++t) one->Step();
    }
    const std::vector<char> before = BitsOf(model);
    const DeviceBytes set(4);
    MustCuda(cudaMemsetAsync(set.get(), 1, 4, stream));
    const Graph graph(&model, SHAMPOO_E_STATE, "inverse roots of group 0 are due at step " + std::to_string(due),
                      set.get());
    graph.Launch();
    int32_t now = 1;
    MustCuda(cudaMemcpyAsync(&now, set.get(), 4, cudaMemcpyDeviceToHost, stream));
    CHECK(BitsOf(model) == before);
    CHECK(now == 0);
    model.Step();
    plain.Step();
    CHECK(BitsOf(model) == BitsOf(plain));
    CHECK(model.Stat("root_computed") == plain.Stat("root_computed"));
  }
}

// Uses graphs that were captured before the first roots were computed, and graphs that were captured afterwards.
TEST_CASE("a replay that needs work that was not captured is rejected and the next call reports the rejection") {
  struct Case {
    int captured, replayed;
    Keys keys = {};
  };
  for (const Case& one :
       {Case{3, 5}, Case{2, 7}, Case{7, 10}, Case{3, 4, kGrowing}, Case{5, 6, kGrowing}, Case{7, 9, kGrowing}}) {
    for (const Keys& lag : kLags) {
      INFO("replayed ", one.replayed, ", ", lag);
      const StageWithStream stream;
      Model model(GraphSpec(one.keys + lag), stream);
      Model plain(GraphSpec(one.keys), stream);
      for (Model* each : {&model, &plain}) each->FillGradients(1);
      std::unique_ptr<Graph> graph;
      for (int t = 1; t < one.replayed; ++t) {
        if (t == one.captured) graph = std::make_unique<Graph>(&model);
        model.Step();
        plain.Step();
      }
      const std::vector<char> before = BitsOf(model);
      graph->Launch();
      graph->Launch();  // is rejected, too
      CHECK(BitsOf(model) == before);
      CheckError(model.TryStep(), SHAMPOO_E_STATE,
                 "a captured step was replayed as step " + std::to_string(one.replayed) + " of group 0");
      CHECK(BitsOf(model) == before);
      graph->Launch();  // is still rejected
      CHECK(BitsOf(model) == before);
      model.Step();
      plain.Step();
      CHECK(BitsOf(model) == BitsOf(plain));
      if (one.captured == 7) {
        graph->Launch();
        plain.Step();
      }
      model.Step();
      plain.Step();
      CHECK(BitsOf(model) == BitsOf(plain));
      model.MustSucceed();
      CHECK(model.Stat("steps") == model.State("group.0/step")[0]);
    }
  }
}

TEST_CASE(
    "if a replay rejects a gradient then shampoo_optimizer_status reports the error and the number of the captured "
    "call") {
  StagedModel model(GraphSpec());
  model.Step(1);
  const Graph graph(&model);
  graph.Launch();
  const std::vector<char> before = BitsOf(model);
  model.SpoilGradient(3, 17, NAN);
  graph.Launch();
  graph.Launch();
  int64_t rejected = 0;
  CheckError(shampoo_optimizer_status(model.optimizer, 1, &rejected), SHAMPOO_E_NUMERIC,
             "parameter \"p3\" has NaN at element 17 (block p3/0)");
  CHECK(rejected == 2);
  CHECK(BitsOf(model) == before);
  Must(shampoo_optimizer_status(model.optimizer, 1, &rejected));
  CHECK(rejected == 0);
  model.Step(2);
  graph.Launch();
  CHECK(model.State("group.0/step")[0] == 4);
}

TEST_CASE("a replay uses the buffers of its capture and a later step uses the buffers that were bound last") {
  const StageWithStream stream;
  Model model(GraphSpec(), stream);
  Model plain(GraphSpec(), stream);
  // After step 2, the test binds parameter 0 to the memory `param`.
  const size_t bytes = model.elements(0) * sizeof(float);
  const DeviceBytes param(bytes);
  for (Model* one : {&model, &plain}) one->Step(1);
  const Graph graph(&model);
  model.Step();
  plain.Step();
  MustCuda(cudaMemcpyAsync(param.get(), model.param(0), bytes, cudaMemcpyDeviceToDevice, stream));
  shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
  buffers.param = param.get();
  buffers.grad = model.grad(0);
  buffers.out = param.get();
  Must(shampoo_optimizer_bind(model.optimizer, 0, 1, &buffers));
  Must(shampoo_optimizer_step(model.optimizer, stream));
  graph.Launch();
  // The next step updates `param`. It does not change the memory that the replay has updated and that
  // model.ParamValues() reads.
  const std::vector<double> of_graph = model.ParamValues(0);
  Must(shampoo_optimizer_step(model.optimizer, stream));
  CHECK(model.ParamValues(0) == of_graph);
  // Step 4 has updated parameter 0 in its old memory, and steps 3 and 5 have updated it in `param`. It is therefore not
  // compared with parameter 0 of `plain`.
  for (int t = 3; t <= 5; ++t) plain.Step();
  for (size_t p = 1; p < 6; ++p) CHECK(model.ParamValues(p) == plain.ParamValues(p));
  for (const std::string& key : model.Keys()) CHECK(model.State(key) == plain.State(key));
}

TEST_CASE("an optimizer can be destroyed while replays are running") {
  const StageWithStream stream(FAKE_CUDA_YOUNGEST_FIRST);
  auto model = std::make_unique<Model>(GraphSpec(), stream);
  model->Step(1);
  const Graph graph(model.get());
  graph.Launch();
  shampoo_optimizer_destroy(std::exchange(model->optimizer, nullptr));
  MustCuda(cudaStreamSynchronize(stream));
}

}  // namespace
}  // namespace shampoo_test
