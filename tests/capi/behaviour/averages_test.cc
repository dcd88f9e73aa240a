// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Tests of the keys `averaging` and `weight_ema`, and of shampoo_optimizer_export. The library stores the newest
// iterate or the average as a difference from the parameter. This file computes the expected average directly.
#include <cmath>
#include <limits>

#include "tests/capi/behaviour/host.h"

namespace shampoo_test {
namespace {

const Keys kSgd = "method=sgd";
constexpr int kSteps = 9;

// Returns the learning rate of a step. The rate rises until step 6 and then falls, except that it is 0 in step 3.
double RateOf(int step) { return step == 3 ? 0 : 0.02 * std::min(step, 12 - step); }

// Calls shampoo_optimizer_export for all parameters and returns the exported arrays.
std::vector<Array> Export(Host* host, double blend) {
  std::vector<Array> weights;
  std::vector<void*> addresses;
  for (const Host::Tensors& tensor : host->tensors) weights.emplace_back(tensor.w.dtype(), tensor.w.size());
  for (Array& one : weights) addresses.push_back(one.data());
  RequireOk(shampoo_optimizer_export(host->optimizer, blend, static_cast<int32_t>(addresses.size()), addresses.data()));
  return weights;
}

// A reference for one element of a parameter that method sgd trains with averaging. The formulas are those of
// Generalized Primal Averaging (GPA) and of Schedule-Free. X is the average, Z is the newest iterate, and the parameter
// is Y = train * X + (1 - train) * Z, where `train` is the key average_train. With GPA, `power` is -1 and `eval` is the
// key average_eval. With Schedule-Free, `power` is the key average_lr_power.
struct AveragedElement {
  double x, z, lr_sum = 0;

  void Step(double lr, double decay, double gradient, double train, double eval, double power) {
    // Weight decay shrinks Z, and changes X so that Y stays the same.
    x += lr * decay * z * (1 - train) / train;
    z -= lr * decay * z;
    double keep = eval;
    if (power >= 0) {
      const double weight = std::pow(lr, power);
      lr_sum += weight;
      keep = lr_sum > 0 ? 1 - weight / lr_sum : 1;
    }
    z -= lr * gradient;
    x = keep * x + (1 - keep) * z;
  }
  double Y(double train) const { return train * x + (1 - train) * z; }
};

void CheckAveraging(const Keys& keys, double train, double eval, double power) {
  const std::vector<shampoo_param_desc> params = {Param("w", {3, 4}, SHAMPOO_F64)};
  Host host(kSgd + keys + "weight_decay=0.3", params);
  std::mt19937_64 random = host.FillFrom(1);
  std::vector<AveragedElement> model;
  for (size_t i = 0; i < 12; ++i) model.push_back({host.tensors[0].w.Get(i), host.tensors[0].w.Get(i)});
  for (int step = 1; step <= kSteps; ++step) {
    host.FillGradients(random);
    RequireOk(shampoo_optimizer_set(host.optimizer, 0, "lr", RateOf(step)));
    host.Step();
    const Array half = Export(&host, 0.5)[0];
    const Array whole = Export(&host, 1)[0];
    for (size_t i = 0; i < 12; ++i) {
      CAPTURE(step);
      AveragedElement& element = model[i];
      element.Step(RateOf(step), 0.3, host.tensors[0].g.Get(i), train, eval, power);
      const double y = element.Y(train);
      CHECK(host.tensors[0].w.Get(i) == doctest::Approx(y).epsilon(1e-13));
      CHECK(whole.Get(i) == doctest::Approx(element.x).epsilon(1e-12));
      CHECK(half.Get(i) == doctest::Approx((y + element.x) / 2).epsilon(1e-12));
    }
  }
}

TEST_CASE("parameters and exports match the formulas of Generalized Primal Averaging with averaging=gpa") {
  CheckAveraging("averaging=gpa average_train=0.7 average_eval=0.6", 0.7, 0.6, -1);
  CheckAveraging("averaging=gpa", 0.8, 0.9, -1);
}

TEST_CASE("parameters and exports match the formulas of Schedule-Free with averaging=schedule_free") {
  CheckAveraging("averaging=schedule_free average_train=0.9", 0.9, 0, 2);
  CheckAveraging("averaging=schedule_free average_lr_power=0", 0.8, 0, 0);
}

TEST_CASE(
    "the state lr_sum of schedule_free also grows in steps in which only other parameters of the group have "
    "gradients") {
  const Keys keys = kSgd + "averaging=schedule_free lr=0.1";
  Host host(keys, {Param("v", {2}, SHAMPOO_F64), Param("w", {2}, SHAMPOO_F64)});
  std::mt19937_64 random = host.FillFrom(2);
  host.FillGradients(random);
  for (int step = 1; step <= 4; ++step) {
    host.tensors[0].has_grad = step % 2 == 1;
    host.Step();
  }
  CHECK(host.Read("v/0/lr_sum") == host.Read("w/0/lr_sum"));
  CHECK(host.Read("v/0/lr_sum").Get(0) == doctest::Approx(0.04));
}

TEST_CASE("the state lr_sum of schedule_free grows only in groups that have gradients") {
  const Keys keys = kSgd + "averaging=schedule_free lr=0.1";
  std::vector<shampoo_param_desc> params = {Param("v", {2}, SHAMPOO_F64), Param("w", {2}, SHAMPOO_F64)};
  params[1].group = 1;
  Host host(std::vector<Keys>{keys, keys}, params);
  std::mt19937_64 random = host.FillFrom(2);
  host.FillGradients(random);
  for (int step = 1; step <= 4; ++step) {
    host.tensors[1].has_grad = step % 2 == 1;
    host.Step();
  }
  CHECK(host.Read("v/0/lr_sum").Get(0) == doctest::Approx(0.04));
  CHECK(host.Read("w/0/lr_sum").Get(0) == doctest::Approx(0.02));
}

TEST_CASE("the state lr_sum of schedule_free grows in steps that skip a block but not in skipped steps") {
  for (const bool skips_step : {true, false}) {
    CAPTURE(skips_step);
    Host host(kSgd + "averaging=schedule_free lr=0.1" + Keys{{"on_nonfinite", skips_step ? "skip_step" : "skip_block"}},
              {Param("w", {5}, SHAMPOO_F64)});
    std::mt19937_64 random = host.FillFrom(4);
    host.RandomStep(random);
    host.tensors[0].g.Set(0, std::numeric_limits<double>::quiet_NaN());
    host.Step();
    CHECK(host.Read("w/0/lr_sum").Get(0) == doctest::Approx(skips_step ? 0.01 : 0.02));
  }
}

TEST_CASE(
    "the average of weight_ema starts as the parameter after step weight_ema_start, and every later call of "
    "shampoo_optimizer_step updates the average") {
  const Keys keys = "weight_ema=0.75 weight_ema_start=3 lr=0.1";
  for (const Keys& method : {kSgd, Keys("method=muon route=off"), Keys("method=soap")}) {
    Host host(method + keys, {Param("w", {4, 3}, SHAMPOO_F64), Param("v", {4, 3}, SHAMPOO_F64)});
    std::mt19937_64 random = host.FillFrom(3);
    std::vector<double> average;
    int64_t step = 0;
    for (int call = 1; call <= 8; ++call) {
      CAPTURE(call);
      host.FillGradients(random);
      host.tensors[1].has_grad = call != 5;
      host.tensors[0].has_grad = call != 6;
      if (call == 7) host.tensors[0].has_grad = host.tensors[1].has_grad = false;
      step += call == 7 ? 0 : 1;
      host.Step();
      const Array exported = Export(&host, 1)[0];
      const Array blended = Export(&host, 0.25)[0];
      average.resize(12);
      for (size_t i = 0; i < 12; ++i) {
        const double w = host.tensors[0].w.Get(i);
        average[i] = step <= 3 && call != 7 ? w : 0.75 * average[i] + 0.25 * w;
        CHECK(exported.Get(i) == doctest::Approx(average[i]).epsilon(1e-12));
        CHECK(blended.Get(i) == doctest::Approx(0.75 * w + 0.25 * average[i]).epsilon(1e-12));
      }
    }
    CHECK(host.Steps(0) == 7);
  }
}

TEST_CASE("a skipped step and a step that skips a block still move the average towards the parameter") {
  for (const char* const choice : {"skip_block", "skip_step"}) {
    Host host(kSgd + Keys{{"weight_ema", "0.5"}, {"lr", "0.1"}, {"on_nonfinite", choice}},
              {Param("w", {5}, SHAMPOO_F64)});
    std::mt19937_64 random = host.FillFrom(4);
    for (int step = 1; step <= 2; ++step) host.RandomStep(random);
    const Array before = host.Read("w/0/ema_offset");
    host.tensors[0].g.Set(0, std::numeric_limits<double>::quiet_NaN());
    host.Step();
    const Array after = host.Read("w/0/ema_offset");
    for (size_t i = 0; i < 5; ++i) CHECK(after.Get(i) == before.Get(i) / 2);
  }
}

TEST_CASE("averaging keeps updates that are too small for a bfloat16 parameter but weight_ema loses them") {
  // The sum of the four updates is below half a unit in the last place of the parameter, so the parameter stays 1.
  const double lr = 0.000244140625;
  Host ema(kSgd + "weight_ema=0.5 lr=0.000244140625", {Param("w", {4}, SHAMPOO_BF16)});
  Host gpa(kSgd + "averaging=gpa average_eval=0.5 lr=0.000244140625", {Param("w", {4}, SHAMPOO_BF16)});
  for (Host* const host : {&ema, &gpa}) {
    for (size_t i = 0; i < 4; ++i) host->tensors[0].w.Set(i, 1), host->tensors[0].g.Set(i, 1);
    for (int step = 1; step <= 4; ++step) host->Step();
    for (size_t i = 0; i < 4; ++i) CHECK(host->tensors[0].w.Get(i) == 1);
  }
  CHECK(ema.Read("w/0/ema_offset").Get(0) == 0);  // the parameter was always 1, so its average is 1, too
  CHECK(gpa.Read("w/0/iterate_offset").Get(0) == -4 * lr);
}

TEST_CASE("with output=updates, weight_ema averages the sum of the parameter and its update") {
  const Keys keys = kSgd + "weight_ema=0.5 lr=0.1";
  const std::vector<shampoo_param_desc> params = {Param("w", {6}, SHAMPOO_F64)};
  Host direct(keys, params);
  Host adding(keys + "output=updates", params);
  std::mt19937_64 random = direct.FillFrom(5);
  adding.tensors[0].w = direct.tensors[0].w;
  adding.tensors[0].out = Array(SHAMPOO_F64, 6);
  for (int step = 1; step <= 4; ++step) {
    direct.RandomStep(random);
    shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
    buffers.param = adding.tensors[0].w.data();
    buffers.grad = direct.tensors[0].g.data();
    buffers.out = adding.tensors[0].out.data();
    RequireOk(shampoo_optimizer_bind(adding.optimizer, 0, 1, &buffers));
    RequireOk(shampoo_optimizer_step(adding.optimizer, nullptr));
    for (size_t i = 0; i < 6; ++i) {
      adding.tensors[0].w.Set(i, adding.tensors[0].w.Get(i) + adding.tensors[0].out.Get(i));
    }
    CHECK(adding.Read("w/0/ema_offset") == direct.Read("w/0/ema_offset"));
  }
}

TEST_CASE("an export changes neither parameters nor state and skips a parameter whose destination is NULL") {
  const std::vector<Keys> groups = {kSgd + "averaging=gpa lr=0.1", kSgd + "lr=0.1"};
  std::vector<shampoo_param_desc> params = {Param("w", {300, 300}), Param("plain", {7}), Param("unwanted", {3})};
  params[1].group = 1;
  Host host(groups, params, 2);
  std::mt19937_64 random = host.FillFrom(6);
  for (int step = 1; step <= 2; ++step) host.RandomStep(random);
  const auto before = host.Everything();
  Array average(SHAMPOO_F32, 90000);
  Array plain(SHAMPOO_F32, 7);
  void* const weights[] = {average.data(), plain.data(), nullptr};
  RequireOk(shampoo_optimizer_export(host.optimizer, 1, 3, weights));
  CHECK(host.Everything() == before);
  CHECK(plain == host.tensors[1].w);
  CHECK(!(average == host.tensors[0].w));
  // An export may overwrite a gradient.
  void* const gradients[] = {host.tensors[0].g.data(), nullptr, nullptr};
  RequireOk(shampoo_optimizer_export(host.optimizer, 1, 3, gradients));
  CHECK(host.tensors[0].g == average);
}

void CheckExportError(Host* host, double blend, int32_t count, void* const* weights, shampoo_status status,
                      const char* text) {
  CHECK(shampoo_optimizer_export(host->optimizer, blend, count, weights) == status);
  CHECK(std::string(shampoo_last_error()) == text);
}

TEST_CASE("the error of an export with a bad argument names the argument and the expected value") {
  Host host(kSgd + "weight_ema=0.9", {Param("w", {4}), Param("v", {4})});
  Array weights[2] = {Array(SHAMPOO_F32, 4), Array(SHAMPOO_F32, 4)};
  void* addresses[] = {weights[0].data(), weights[1].data()};
  CheckExportError(&host, 1, 2, addresses, SHAMPOO_E_STATE,
                   "parameter \"w\" (index 0) has no buffers: call shampoo_optimizer_bind for every parameter before "
                   "the first step, with grad NULL if the parameter has no gradient");
  host.Bind();
  RequireOk(shampoo_optimizer_export(host.optimizer, 1, 2, addresses));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CheckExportError(&host, 1.5, 2, addresses, SHAMPOO_E_INVALID,
                   "blend is 1.5: expected a number in [0, 1]; 1 exports the averages");
  CheckExportError(&host, nan, 2, addresses, SHAMPOO_E_INVALID,
                   "blend is nan: expected a number in [0, 1]; 1 exports the averages");
  CheckExportError(&host, 1, 1, addresses, SHAMPOO_E_INVALID,
                   "count is 1: expected 2, the number of parameters of the plan");
  CheckExportError(&host, 1, 2, nullptr, SHAMPOO_E_INVALID, "weights is NULL: expected a pointer");
  addresses[1] = host.tensors[1].w.data();
  CheckExportError(&host, 1, 2, addresses, SHAMPOO_E_INVALID,
                   "weights[1] overlaps the parameter \"v\": expected separate memory, because training continues from "
                   "the parameter; for example, pass the memory of the gradient");
  addresses[1] = host.tensors[1].w.data() + 12;
  CHECK(shampoo_optimizer_export(host.optimizer, 1, 2, addresses) == SHAMPOO_E_INVALID);
  char bytes[4 * 5] = {};
  addresses[1] = bytes + 2 - reinterpret_cast<uintptr_t>(bytes) % 4;
  CheckExportError(
      &host, 1, 2, addresses, SHAMPOO_E_INVALID,
      "weights[1]: the memory is not aligned: expected an address that is a multiple of 4, because the dtype is f32");
}

TEST_CASE("creating a plan fails if averaging or weight_ema is combined with an unsupported value of another key") {
  const auto reject = [](const Keys& keys, const char* text) { CHECK(PlanError("averaging=gpa" + keys) == text); };
  reject(kSgd + "momentum=0.9",
         "key averaging: the value gpa is not allowed with momentum, because the average of iterates replaces "
         "momentum: expected averaging=none, or momentum=0");
  reject(kSgd + "norm_control=relative",
         "key averaging: the value gpa is not allowed with norm_control or update_floor, because these keys use the "
         "norm of the parameter, but a step changes the newest iterate instead: expected averaging=none, or "
         "norm_control=none and update_floor=0");
  reject(kSgd + "cautious_decay=true",
         "key averaging: the value gpa is not allowed with cautious_decay, because the newest iterate decays instead "
         "of the parameter: expected averaging=none, or cautious_decay=false");
  reject("method=soap weight_decay_type=decoupled_after",
         "key averaging: the value gpa is not allowed with weight_decay_type=decoupled_after, because the newest "
         "iterate decays instead of the parameter: expected averaging=none, or weight_decay_type=decoupled");
  reject(kSgd + "weight_ema=0.9 averaging=schedule_free",
         "key averaging: the value schedule_free is not allowed with weight_ema, because only one average can be "
         "exported: expected averaging=none, or weight_ema=0");
  reject(
      kSgd + "average_dtype=bf16 averaging=schedule_free",
      "keys average_dtype and averaging: the values bf16 and schedule_free are not allowed together, because after a "
      "few hundred steps rounding would undo every change of the average: expected state_rounding=stochastic, or "
      "average_dtype=f32");
  reject(kSgd + "average_dtype=bf16 average_eval=0.999",
         "keys average_dtype and average_eval: the values bf16 and 0.999 are not allowed together, because rounding "
         "would undo every decay of the difference between average and parameter: expected average_eval of at most "
         "0.99609375, or state_rounding=stochastic, or average_dtype=f32");
  reject(kSgd + "average_dtype=bf16 averaging=none weight_ema=0.999",
         "keys average_dtype and weight_ema: the values bf16 and 0.999 are not allowed together, because rounding "
         "would undo every decay of the difference between average and parameter: expected weight_ema of at most "
         "0.99609375, or state_rounding=stochastic, or average_dtype=f32");
}

TEST_CASE("averages are bit-identical for every number of threads") {
  for (const Keys& keys : {Keys("averaging=schedule_free"), Keys("weight_ema=0.9")}) {
    std::vector<std::vector<char>> first;
    for (const int32_t threads : {1, 2, 5}) {
      Host host("method=adam lr=0.1" + keys, {Param("w", {600, 500})}, threads);
      std::mt19937_64 random = host.FillFrom(7);
      for (int step = 1; step <= 3; ++step) host.RandomStep(random);
      std::vector<std::vector<char>> all = host.Everything();
      all.push_back(Export(&host, 1)[0].bytes());
      if (first.empty()) first = all;
      CHECK(all == first);
    }
  }
}

}  // namespace
}  // namespace shampoo_test
