// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests the keys averaging and weight_ema: captured steps, rejected steps, steps that only enqueue work, and exports of
// averages.
#include <cmath>

#include "tests/cuda/contract/sizes.h"
#include "tests/cuda/tools/graph.h"

namespace shampoo_test {
namespace {

const std::vector<Keys> kAverages = {
    {{"averaging", "gpa"}}, {{"averaging", "schedule_free"}}, {{"weight_ema", "0.75"}, {"weight_ema_start", "3"}}};

ModelSpec AveragedSpec(const Keys& average, const char* method = "sign") {
  return {.keys = Keys{{"method", method}, {"lr", "0.05"}, {"weight_decay", "0.1"}} + average,
          .params = {{{4, 3}}, {{5}}, {{70, 90}}, {{6, 6}}}};
}

shampoo_status TryExport(const Model& model, double blend, std::vector<void*> weights) {
  return shampoo_optimizer_export(model.optimizer, blend, static_cast<int32_t>(weights.size()), weights.data());
}
std::vector<void*> Gradients(const Model& model) {
  std::vector<void*> weights;
  for (size_t p = 0; p < model.params(); ++p) weights.push_back(model.grad(p));
  return weights;
}

TEST_CASE("if the learning rate is in device memory, each replay of a captured step advances averages as a step does") {
  for (const Keys& average : kAverages) {
    for (const char* method : {"sign", "adam", "muon"}) {
      INFO(average, ", method ", std::string(method));
      const StageWithStream stream;
      Model plain(AveragedSpec(average, method), stream);
      Model captured(AveragedSpec(average, method), stream);
      const DeviceBytes rate(8);
      const auto set_rate = [&](uint64_t t) {
        const double lr = t == 4 ? 0 : 0.01 * static_cast<double>(t);
        Must(shampoo_optimizer_set(plain.optimizer, 0, "lr", lr));
        MustCuda(cudaStreamSynchronize(stream));
        MustCuda(cudaMemcpy(rate.get(), &lr, sizeof lr, cudaMemcpyDefault));
      };
      set_rate(1);
      Must(shampoo_optimizer_bind_scalar(captured.optimizer, 0, "lr", SHAMPOO_F64, rate.get()));
      for (Model* const model : {&plain, &captured}) {
        model->DropGradient(1, true);
        model->Step(1);
      }
      captured.FillGradients(2);
      const Graph graph(&captured);
      for (uint64_t t = 2; t <= 12; ++t) {
        set_rate(t);
        plain.Step(t);
        captured.FillGradients(t);
        graph.Launch();
      }
      CheckReplayed(captured, plain, 12);
      Must(TryExport(plain, 1, Gradients(plain)));
      Must(TryExport(captured, 1, Gradients(captured)));
      for (size_t p = 0; p < plain.params(); ++p) {
        CHECK(captured.GradientValues(p) == plain.GradientValues(p));
        const bool moves = p != 1;
        CHECK((captured.GradientValues(p) != captured.ParamValues(p)) == moves);
      }
    }
  }
}

TEST_CASE("exports and steps with averages load no kernel and allocate nothing and wait for nothing" * NeedsFake()) {
  for (const Keys& average : kAverages) {
    StagedModel model(AveragedSpec(average), FAKE_CUDA_AS_LATE_AS_POSSIBLE);
    model.FillGradients(1);
    const std::vector<void*> weights = Gradients(model);
    CheckOnlyEnqueues([&] {
      model.Step();
      Must(TryExport(model, 0.5, weights));
    });
  }
}

TEST_CASE("an export skips parameters whose entry in weights is NULL, and copies parameters that have no average") {
  const Stage stage;
  for (const Keys& average : {Keys("weight_ema=0.5"), Keys{}}) {
    Model model(AveragedSpec(average));
    model.Train(1, 2);
    const std::vector<double> gradient = model.GradientValues(0);
    std::vector<void*> weights = Gradients(model);
    weights[0] = nullptr;
    Must(TryExport(model, 1, weights));
    CHECK(model.GradientValues(0) == gradient);
    CHECK((model.GradientValues(2) == model.ParamValues(2)) == average.empty());
    Must(TryExport(model, 0, weights));
    CHECK(model.GradientValues(2) == model.ParamValues(2));
    Must(TryExport(model, 1, std::vector<void*>(model.params())));
  }
}

TEST_CASE("the arguments of an export are checked as on the CPU") {
  const StageWithStream stream;
  Model model(AveragedSpec("weight_ema=0.5"), stream);
  CheckError(TryExport(model, 1, Gradients(model)), SHAMPOO_E_STATE, "has no buffers");
  model.Step(1);
  for (const double blend : {-0.1, 1.5, static_cast<double>(NAN)}) {
    CheckError(TryExport(model, blend, Gradients(model)), SHAMPOO_E_INVALID, "expected a number in [0, 1]");
  }
  CheckError(TryExport(model, 1, {model.grad(0)}), SHAMPOO_E_INVALID, "count is 1: expected 4");
  std::vector<void*> weights = Gradients(model);
  weights[2] = model.param(2);
  CheckError(TryExport(model, 1, weights), SHAMPOO_E_INVALID, "weights[2] overlaps the parameter \"p2\"");
  const Graph empty(
      stream, [&] { CheckError(TryExport(model, 1, Gradients(model)), SHAMPOO_E_STATE, "outside of the capture"); });
  Must(TryExport(model, 1, Gradients(model)));
}

TEST_CASE("a rejected step leaves averages as they are") {
  for (const Keys& average : kAverages) {
    const Stage stage;
    Model model(AveragedSpec(average + Keys("on_nonfinite=error")));
    model.Train(1, 4);
    model.Wait();
    const std::string before = model.Bits();
    model.SpoilGradient(0, 1, NAN);
    model.Step();
    CHECK(model.Status() == SHAMPOO_E_NUMERIC);
    CHECK(model.Bits() == before);
  }
}

}  // namespace
}  // namespace shampoo_test
