// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests steps that are rejected because a bound hyper-parameter (shampoo_optimizer_bind_scalar) or a step counter is
// out of range, a parameter or a factor matrix is not finite, or a gradient would overflow a state. Also tests updates
// that the device skips.
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "tests/cuda/contract/pair.h"

namespace shampoo_test {
namespace {

// Checks that the device and the CPU reject the next step with the same error, and that the device changes nothing.
// With status_lag=1, Status() returns the error after the step, with the prefix "a step was rejected: ".
void CheckRejected(Pair* pair, const Keys& keys, shampoo_status code) {
  const bool is_late = ReportsLate(keys);
  const std::vector<char> before = BitsOf(pair->device);
  CHECK(pair->host.TryStep() == code);
  const std::string expected = shampoo_last_error();
  shampoo_status status = pair->device.TryStep();
  if (is_late) {
    CHECK(status == SHAMPOO_OK);
    status = pair->device.Status();
  }
  CHECK(status == code);
  const std::string text = shampoo_last_error();
  const std::string own = is_late ? text.substr(std::string("a step was rejected: ").size()) : text;
  CHECK(own == expected);
  CHECK(BitsOf(pair->device) == before);
  CHECK(pair->DifferingCounters() == "");
}

// A value of a hyper-parameter, stored both in device memory and in host memory.
class BoundNumber {
 public:
  // Sets the stored values to `value`, and binds them to a hyper-parameter of both optimizers.
  void Bind(Pair* pair, const char* key, int32_t dtype, double value) {
    BindTo(&pair->device, key, dtype, on_device_.get(), value);
    BindTo(&pair->host, key, dtype, &on_host_, value);
  }

 private:
  static void BindTo(Model* model, const char* key, int32_t dtype, void* memory, double value) {
    const auto narrow = static_cast<float>(value);
    const void* const from = dtype == SHAMPOO_F64 ? static_cast<const void*>(&value) : &narrow;
    MustCuda(cudaMemcpy(memory, from, dtype == SHAMPOO_F64 ? 8 : 4, cudaMemcpyDefault));
    Must(shampoo_optimizer_bind_scalar(model->optimizer, 0, key, dtype, memory));
  }

  DeviceBytes on_device_{8};
  double on_host_ = 0;
};

TEST_CASE("a step with a bound hyper-parameter out of range fails with the error message of the CPU") {
  struct Case {
    const char* key;
    int32_t dtype;
    double value;
  };
  for (const Case& one : {Case{"lr", SHAMPOO_F32, -1}, Case{"lr", SHAMPOO_F64, NAN}, Case{"lr", SHAMPOO_F32, HUGE_VAL},
                          Case{"lr", SHAMPOO_F64, 1e39}, Case{"gradient_scale", SHAMPOO_F64, NAN},
                          Case{"gradient_scale", SHAMPOO_F32, -HUGE_VAL}, Case{"gradient_scale", SHAMPOO_F64, -1e200},
                          Case{"beta1", SHAMPOO_F32, 1}, Case{"beta1", SHAMPOO_F64, NAN},
                          Case{"weight_decay", SHAMPOO_F32, -0.5}, Case{"weight_decay", SHAMPOO_F64, 1e39}}) {
    for (const Keys& lag : kLags) {
      INFO(std::string(one.key), " ", one.value, ", ", lag);
      const StageWithStream stream;
      BoundNumber number;
      Pair pair(FiveShapes(lag), stream);
      pair.Train(1, 3);
      number.Bind(&pair, one.key, one.dtype, one.value);
      CheckRejected(&pair, lag, SHAMPOO_E_INVALID);
      number.Bind(&pair, one.key, one.dtype, 0.25);
      pair.StepBoth(4);
      CHECK(pair.DifferingValues(1e-4) == "");
      // After the hyper-parameter is unbound, the value of shampoo_optimizer_set() applies.
      pair.Each([&](Model& model) {
        Must(shampoo_optimizer_bind_scalar(model.optimizer, 0, one.key, 0, nullptr));
        Must(shampoo_optimizer_set(model.optimizer, 0, one.key, 0.5));
      });
      pair.StepBoth(5);
      CHECK(pair.DifferingValues(1e-4) == "");
    }
  }
}

TEST_CASE("device and CPU derive the valid range of a bound hyper-parameter from the computation dtypes of its group") {
  enum Group { kF32 = 1, kF64 = 2, kBoth = 3 };
  struct Case {
    Group group;
    const char* key;
    double value;
    bool is_usable;
  };
  const double tiny = 1e-50;       // rounds to 0 in float32
  const double subnormal = 1e-40;  // is subnormal in float32
  for (const Case& one : {Case{kF32, "lr", 3e38, true},
                          Case{kF32, "lr", 1e39, false},
                          Case{kF64, "lr", 1e39, true},
                          Case{kF64, "lr", 1e300, true},
                          Case{kF64, "lr", kInfinity, false},
                          Case{kF64, "lr", -1e-300, false},
                          Case{kBoth, "lr", 1e39, false},
                          Case{kF32, "lr", tiny, true},
                          Case{kF64, "lr", tiny, true},
                          Case{kF32, "lr", 0, true},
                          Case{kF32, "gradient_scale", -1e39, false},
                          Case{kF64, "gradient_scale", -1e39, true},
                          Case{kBoth, "gradient_scale", 1e39, false},
                          Case{kF32, "gradient_scale", tiny, false},
                          Case{kF32, "gradient_scale", -tiny, false},
                          Case{kF32, "gradient_scale", subnormal, true},
                          Case{kF64, "gradient_scale", tiny, true},
                          Case{kF64, "gradient_scale", -tiny, true},
                          Case{kBoth, "gradient_scale", tiny, false},
                          Case{kF32, "gradient_scale", 0, true},
                          Case{kF64, "gradient_scale", NAN, false}}) {
    for (const Keys& lag : kLags) {
      CAPTURE(static_cast<int>(one.group));
      INFO(std::string(one.key), " ", one.value, ", ", lag);
      const StageWithStream stream;
      BoundNumber number;
      ModelSpec spec;
      // Group 0 contains the parameters whose dtype is a bit of `one.group`. The range does not depend on group 1,
      // which contains the other parameters.
      spec.keys = lag + Keys("on_nonfinite=skip_block epsilon=0.1");
      spec.groups = {{}};
      for (const int32_t dtype : {SHAMPOO_F32, SHAMPOO_F64}) {
        const bool in_group = (static_cast<int>(one.group) & dtype) != 0;
        spec.params.push_back({{4, 3}, dtype, dtype, dtype});
        spec.params.back().group = in_group ? 0 : 1;
      }
      Pair pair(spec, stream);
      pair.StepBoth(1);
      number.Bind(&pair, one.key, SHAMPOO_F64, one.value);
      if (!one.is_usable) {
        CheckRejected(&pair, lag, SHAMPOO_E_INVALID);
        continue;
      }
      CHECK(pair.host.TryStep() == SHAMPOO_OK);
      CHECK(pair.device.TryStep() == SHAMPOO_OK);
      CHECK(pair.device.Status() == SHAMPOO_OK);
      CHECK(pair.DifferingCounters() == "");
    }
  }
}

TEST_CASE("a parameter with coupled decay must be finite") {
  for (const Keys& lag : kLags) {
    CAPTURE(lag);
    const StageWithStream stream;
    Pair pair(FiveShapes(lag + Keys("weight_decay=0.1 weight_decay_type=coupled")), stream);
    pair.Train(1, 3);
    pair.Each([](Model& model) {
      std::vector<double> values = Sequence(5, model.elements(2));
      values[13] = NAN;
      model.SetParam(2, values);
    });
    CheckRejected(&pair, lag, SHAMPOO_E_NUMERIC);
  }
}

TEST_CASE("a step is rejected if coupled decay cancels the gradient but the rounding error overflows a factor matrix") {
  const auto param = 3e34F;
  const auto grad = -7.77e33F;
  char decay[40];
  std::snprintf(decay, sizeof decay, "%.17g", -static_cast<double>(grad) / static_cast<double>(param));
  for (const Keys& lag : kLags) {
    CAPTURE(lag);
    const StageWithStream stream;
    ModelSpec spec{.keys = lag + Keys{{"weight_decay", decay}, {"weight_decay_type", "coupled"}}, .params = {{{3, 2}}}};
    Pair pair(spec, stream);
    pair.Each([&](Model& model) {
      model.SetParam(0, {1, 1, 1, static_cast<double>(param), 1, 1});
      model.SetGradient(0, {1, 1, 1, static_cast<double>(grad), 1, 1});
    });
    CheckRejected(&pair, lag, SHAMPOO_E_NUMERIC);
  }
}

TEST_CASE("a gradient that fits its dtype is rejected if a state would overflow") {
  for (const Keys& lag : kLags) {
    CAPTURE(lag);
    const StageWithStream stream;
    ModelSpec spec{.keys = lag + Keys("factor_dtype=f16 precondition_frequency=4"), .params = {{{3, 2}}}};
    Pair pair(spec, stream);
    pair.StepBoth(1);
    pair.Each([](Model& model) {
      model.SetState("p0/0/factor.0", std::vector<double>{64800, 0, 0, 0, 1, 0, 0, 0, 1});
      model.SetGradient(0, std::vector<double>(6, 10.0));
    });
    CheckRejected(&pair, lag, SHAMPOO_E_NUMERIC);
  }
}

// A tile has 64 x 64 elements, so a matrix of 150 x 150 has 3 x 3 tiles, and its last row and column of tiles are
// smaller.
TEST_CASE("every tile of a factor matrix is checked, and the error names the matrix") {
  constexpr size_t kSize = 150;
  for (const char* dtype : {"f32", "bf16"}) {
    for (const auto& [row, column] : std::vector<std::pair<size_t, size_t>>{{0, 0}, {149, 0}, {149, 149}, {70, 69}}) {
      for (const double value : {static_cast<double>(NAN), kInfinity}) {
        INFO("factor_dtype ", std::string(dtype), ", row ", row, ", column ", column, ", value ", value);
        const Stage stage;
        ModelSpec spec{.keys = {{"precondition_frequency", "2"},
                                {"factor_dtype", dtype},
                                {"status_lag", "0"},
                                {"epsilon", "1"},
                                {"use_merge_dims", "false"}},
                       .params = {{{3, kSize}}}};
        Pair pair(spec);
        pair.StepBoth(1);
        pair.Each([&](Model& model) {
          std::vector<double> factor = model.State("p0/0/factor.1");
          REQUIRE(factor.size() == kSize * kSize);
          factor[row * kSize + column] = value;
          factor[column * kSize + row] = value;
          model.SetState("p0/0/factor.1", factor);
        });
        fake_cuda_mark();
        CheckRejected(&pair, spec.keys, SHAMPOO_E_NUMERIC);
        if (OnFake()) CHECK(fake_cuda_launches_of("ScanFactors") == 1);
      }
    }
  }
}

TEST_CASE("only steps that compute roots check whether factor matrices are finite" * NeedsFake()) {
  const Stage stage;
  Model model(FiveShapes("precondition_frequency=3"));
  for (int t = 1; t <= 7; ++t) {
    CAPTURE(t);
    model.FillGradients(static_cast<uint64_t>(t));
    fake_cuda_mark();
    model.Step();
    CHECK(fake_cuda_launches_of("ScanFactors") == (t % 3 == 0 ? 1 : 0));
  }
}

TEST_CASE("a factor matrix that the host has written is checked when roots are due") {
  for (const Keys& keys : Combinations("status_lag=0|1 on_nonfinite=error|skip_step")) {
    CAPTURE(keys);
    const StageWithStream stream;
    Pair pair(FiveShapes(keys), stream);
    pair.Train(1, 3);
    const std::vector<double> sound = pair.host.State("p3/0/factor.1");
    std::vector<double> bad = sound;
    bad[6 * 5 + 2] = HUGE_VAL;
    pair.Each([&](Model& model) { model.SetState("p3/0/factor.1", bad); });
    CheckRejected(&pair, keys, SHAMPOO_E_NUMERIC);
    pair.Each([&](Model& model) { model.SetState("p3/0/factor.1", sound); });
    pair.StepBoth(4);
    CHECK(pair.DifferingValues(1e-4) == "");
  }
}

TEST_CASE("a step counter out of range is rejected") {
  for (const double counter : {-1.0, 9007199254740992.0}) {
    for (const Keys& lag : kLags) {
      CAPTURE(counter);
      const StageWithStream stream;
      Pair pair(FiveShapes(lag), stream);
      pair.StepBoth(1);
      pair.Each([&](Model& model) { model.SetState("group.0/step", {counter}); });
      pair.CheckBothReject(SHAMPOO_E_STATE);  // also with status_lag=1, because the host reads the counter
    }
  }
}

TEST_CASE(
    "if an update overflows an output or a copy, it is skipped, and with on_nonfinite=error only the next step fails") {
  for (const Keys& keys : Combinations("status_lag=0|1 on_nonfinite=error|skip_block")) {
    for (const bool in_copy : {false, true}) {
      INFO(keys, ", in copy ", in_copy);
      const StageWithStream stream;
      ModelSpec spec = FiveShapes(keys + Keys("lr=1e6"));
      spec.params[1].in_place = in_copy;
      spec.params[1].out_dtype = SHAMPOO_F16;
      spec.params[4].copy_dtype = in_copy ? SHAMPOO_F16 : SHAMPOO_F32;
      Pair pair(spec, stream);
      pair.StepBoth(1);
      CHECK(pair.DifferingValues(1e-4) == "");
      const size_t skipped = in_copy ? 4 : 1;
      CHECK(pair.device.ParamValues(skipped) == pair.host.ParamValues(skipped));
      if (in_copy) CHECK(pair.device.CopyValues(skipped) == pair.host.CopyValues(skipped));
      pair.device.MustSucceed();
      CHECK(pair.host.Stat("nonfinite_blocks") == 1);
      CHECK(pair.DifferingCounters() == "");
      pair.Each([](Model& model) { Must(shampoo_optimizer_set(model.optimizer, 0, "lr", 0.1)); });
      if (keys.Value("on_nonfinite") == "error") pair.CheckBothReject(SHAMPOO_E_NUMERIC);
      pair.Train(2, 4);
      CHECK(pair.DifferingValues(1e-3) == "");
    }
  }
}

}  // namespace
}  // namespace shampoo_test
