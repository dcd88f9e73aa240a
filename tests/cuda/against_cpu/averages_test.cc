// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Compares averages of parameters (keys `averaging` and `weight_ema`) and their exports on the device and on the CPU.
#include <cmath>

#include "tests/cuda/against_cpu/course.h"
#include "tests/cuda/fake/control.h"

namespace shampoo_test {
namespace {

const std::vector<Keys> kAverages = {
    {{"averaging", "gpa"}, {"average_train", "0.7"}, {"average_eval", "0.6"}},
    {{"averaging", "schedule_free"}},
    {{"averaging", "schedule_free"}, {"average_lr_power", "0.5"}, {"average_train", "0.9"}},
    {{"weight_ema", "0.75"}},
    {{"weight_ema", "0.9"}, {"weight_ema_start", "2"}}};
const std::vector<Keys> kMethods = {
    {{"method", "sgd"}},
    {{"method", "adam"}, {"max_update_rms", "0.5"}},
    {{"method", "sign"}},
    {{"method", "muon"}, {"adam_lr", "0.02"}, {"precondition_math", "f32"}},
    {{"method", "shampoo"}, {"epsilon", "0.1"}, {"grafting", "adam"}, {"use_merge_dims", "false"}}};

// Returns parameters of one to three dims. The parameter of shape (90, 70) has several tiles. The last parameter has a
// separate output in float64 and a copy in float32.
std::vector<ParamSpec> AveragedParams(int32_t dtype) {
  std::vector<ParamSpec> params = ParamsOf({{9, 7}, {3, 4, 5}, {6}, {1}, {90, 70}}, dtype);
  params.push_back({{5, 8}, dtype, dtype, SHAMPOO_F64, false, SHAMPOO_F32});
  params.back().role = SHAMPOO_HEAD;
  return params;
}

// In step 3, the rate is 0. The weight of the iterate in an average of schedule_free is then 0, too.
double RateOf(int64_t t) { return t == 3 ? 0 : 0.02 * static_cast<double>(t); }
void SetRate(int64_t t, Model* model) { Must(shampoo_optimizer_set(model->optimizer, 0, "lr", RateOf(t))); }

TEST_CASE("averages with each method are those of the CPU") {
  for (const Keys& method : kMethods) {
    for (const Keys& average : kAverages) {
      for (const int32_t dtype : {SHAMPOO_F64, SHAMPOO_F32}) {
        INFO(method, " ", average, ", dtype ", dtype);
        Course course{.spec = {method + average + Keys("weight_decay=0.3"), AveragedParams(dtype)}, .steps = 5};
        course.has_gradient = [](int64_t t, size_t p) { return t != 4 || p % 2 == 1; };
        course.before = SetRate;
        CHECK(Difference(course) == "");
      }
    }
  }
}

void CheckAveragedKeys(const Keys& keys) {
  CAPTURE(keys);
  CHECK(Difference({.spec = {keys + Keys("lr=0.05"), AveragedParams(SHAMPOO_F64)}, .steps = 4}) == "");
}

TEST_CASE("averages in combination with other keys are those of the CPU") {
  const std::vector<Keys> others = {{{"weight_decay", "0.2"}, {"weight_decay_type", "coupled"}},
                                    {{"weight_decay", "0.2"}, {"weight_decay_type", "independent"}},
                                    {{"output", "updates"}},
                                    {{"average_dtype", "f32"}},
                                    {{"shape_scale", "spectral"}, {"update_norm", "rms"}},
                                    {{"status_lag", "0"}}};
  for (const Keys& other : others) {
    for (const Keys& average : kAverages) CheckAveragedKeys(Keys("method=sign") + average + other);
  }
  for (const Keys& other :
       {Keys("momentum=0.9"), Keys("norm_control=hyperball"), Keys("weight_decay=0.2 weight_decay_type=palm")}) {
    CheckAveragedKeys(Keys("method=adam weight_ema=0.8") + other);
  }
}

// The signs of eigenvectors depend on the solver. Therefore only two arrays are compared: the parameter, and the state
// iterate_offset (the iterate minus the parameter) or ema_offset (the average minus the parameter).
TEST_CASE("averages of method soap are those of the CPU") {
  for (const Keys& average : kAverages) {
    CAPTURE(average[0].second);
    const Keys keys = Keys("method=soap lr=0.05 weight_decay=0.3") + average;
    const Course course{.spec = {keys, ParamsOf({{3, 4}}, SHAMPOO_F64)}, .steps = 4};
    const Results device = Run(course, SHAMPOO_CUDA);
    const Results host = Run(course, SHAMPOO_CPU);
    const char* const offset = average[0].first == "weight_ema" ? "p0/0/ema_offset" : "p0/0/iterate_offset";
    for (const char* name : {"p0", offset}) CHECK(Distance(device.Of(name), host.Of(name)) < 1e-8);
  }
}

TEST_CASE("an iterate keeps the updates that rounding removes from the parameter, as on the CPU") {
  // Each update is below half a unit in the last place of the parameter. Therefore the parameter stays 1. With the
  // key `averaging`, the iterate accumulates the updates. With `weight_ema`, the average follows the rounded parameter.
  for (const Keys& average : {Keys("averaging=gpa average_eval=0.5"), Keys("weight_ema=0.5")}) {
    for (const bool in_place : {true, false}) {
      Course course{.steps = 4, .tolerance = 1e-10};
      course.spec.keys = Keys("method=sgd lr=0.000244140625") + average;
      course.spec.params = {{{4}, SHAMPOO_BF16, SHAMPOO_F32, SHAMPOO_BF16, in_place}};
      course.gradient = [](int64_t, size_t, size_t elements) { return std::vector<double>(elements, 1); };
      course.before = [](int64_t, Model* model) { model->SetParam(0, std::vector<double>(4, 1)); };
      CHECK(Difference(course) == "");
      const bool moves = average[0].first == "averaging";
      const std::string state = moves ? "p0/0/iterate_offset" : "p0/0/ema_offset";
      CHECK(Run(course, SHAMPOO_CUDA).Of(state) == std::vector<double>(4, moves ? -4 * 0.000244140625 : 0));
    }
  }
}

TEST_CASE("steps without gradients, skipped steps and skipped blocks change averages as on the CPU") {
  for (const Keys& average : kAverages) {
    for (const char* choice : {"skip_block", "skip_step"}) {
      const Keys keys = Keys{{"method", "sgd"}, {"lr", "0.1"}, {"on_nonfinite", choice}} + average;
      CAPTURE(keys);
      Course course{.spec = {keys, ParamsOf({{6, 4}, {3}, {7}}, SHAMPOO_F64)}, .steps = 8};
      course.spec.params[2].group = 1;
      course.spec.groups = {{{"lr", "0.2"}}};
      course.has_gradient = [](int64_t t, size_t p) { return t != 6 && (p != 2 || t % 2 == 1); };
      course.before = [](int64_t t, Model* model) {
        if (t == 4) model->SpoilGradient(1, 2, NAN);
      };
      CHECK(Difference(course) == "");
    }
  }
}

TEST_CASE("averages are those of the CPU after updates that are skipped because a parameter would overflow") {
  for (const Keys& average : kAverages) {
    const Keys keys = Keys("method=sgd lr=0.1 on_nonfinite=skip_block") + average;
    CAPTURE(keys);
    Course course{.spec = {keys, {{{6}}, {{5}}}}, .steps = 4};
    course.before = [](int64_t t, Model* model) {
      Must(shampoo_optimizer_set(model->optimizer, 0, "lr", t == 2 ? 1e38 : 0.1));
      if (t == 2) model->SetGradient(0, std::vector<double>(6, 1e3));
    };
    CHECK(Difference(course) == "");
  }
}

// Exports the averages of all parameters to the memory of the gradients, and returns the averages.
std::vector<std::vector<double>> Export(Model* model, double blend) {
  std::vector<void*> weights;
  for (size_t p = 0; p < model->params(); ++p) weights.push_back(model->grad(p));
  Must(shampoo_optimizer_export(model->optimizer, blend, static_cast<int32_t>(weights.size()), weights.data()));
  std::vector<std::vector<double>> exported;
  for (size_t p = 0; p < model->params(); ++p) exported.push_back(model->GradientValues(p));
  return exported;
}

TEST_CASE("exports write the same averages as on the CPU and change no parameter or state") {
  for (const Keys& average : kAverages) {
    for (const int32_t dtype : {SHAMPOO_F64, SHAMPOO_F32}) {
      for (const double blend : {1.0, 0.25}) {
        INFO(average, " dtype ", dtype, ", blend ", blend);
        ModelSpec spec;
        spec.keys = Keys("method=sgd lr=0.1") + average;
        // One launch of the kernel cannot export so many parameters. Parameter 69 is in a group without an average.
        for (int64_t p = 0; p < 70; ++p) spec.params.push_back({{2, p + 1}, dtype, dtype, dtype});
        spec.params.push_back({{90, 70}, dtype, dtype, dtype});
        spec.params[69].group = 1;
        spec.groups = {{{"averaging", "none"}, {"weight_ema", "0"}}};
        Model device(spec);
        spec.device_type = SHAMPOO_CPU;
        Model host(spec);
        for (Model* const model : {&host, &device}) {
          model->Train(1, 3);
          model->Wait();
        }
        const std::string before = device.Bits();
        const std::vector<std::vector<double>> of_device = Export(&device, blend);
        const std::vector<std::vector<double>> of_host = Export(&host, blend);
        for (size_t p = 0; p < of_host.size(); ++p) CHECK(Distance(of_device[p], of_host[p]) < 1e-6);
        CHECK(of_device[69] == device.ParamValues(69));
        CHECK(of_device[70] != device.ParamValues(70));
        CHECK(device.Bits() == before);
        for (Model* const model : {&host, &device}) model->Step(4);
        CHECK(Distance(device.ParamValues(70), host.ParamValues(70)) < 1e-6);
        CHECK(std::string(fake_cuda_problems()).empty());
      }
    }
  }
}

}  // namespace
}  // namespace shampoo_test
