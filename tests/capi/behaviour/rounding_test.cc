// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Tests of the keys state_rounding, param_rounding and rounding_seed.
#include <cmath>

#include "tests/capi/behaviour/host.h"

namespace shampoo_test {
namespace {

const Keys kStochastic = "state_rounding=stochastic";

const Keys kNarrow = "filtered_grad_dtype=bf16 beta1=0.9 lr=0.01";
const Keys kNarrowMethods[] = {
    "method=adam beta2=0.99 epsilon=1 second_moment_dtype=bf16 averaging=gpa average_dtype=bf16",
    "method=sgd momentum=0.9 momentum_dtype=bf16",
    "method=shampoo grafting=adam grafting_beta2=0.99 grafting_dtype=bf16",
    "method=muon route=off second_moment=element second_moment_dtype=bf16",
    "method=soap precondition_frequency=2 second_moment_dtype=bf16 weight_ema=0.9 average_dtype=bf16"};

TEST_CASE("stochastic rounding is bit-identical for every number of threads, and differs for another seed") {
  const std::vector<shampoo_param_desc> params = {Param("w", {300, 260}, SHAMPOO_BF16)};
  for (const Keys& method : kNarrowMethods) {
    CAPTURE(method);
    const Keys keys = kNarrow + method + kStochastic + "param_rounding=stochastic";
    const auto one = CheckThreads(keys, params, 4);
    CHECK(TrainedBits(keys + "rounding_seed=1", params, 4) != one);
    CHECK(TrainedBits(kNarrow + method, params, 4) != one);
  }
}

TEST_CASE("stochastic rounding stores each element of a state as one of the two neighbors of the unrounded number") {
  // In the first step, both optimizers compute the same states and round them differently.
  for (const Keys& method : kNarrowMethods) {
    Host nearest(kNarrow + method, {Param("w", {40, 30})});
    Host stochastic(kNarrow + method + kStochastic, {Param("w", {40, 30})});
    for (Host* const host : {&nearest, &stochastic}) {
      std::mt19937_64 random = host->FillFrom(2);
      host->RandomStep(random);
    }
    for (const Host::Entry& entry : nearest.Entries()) {
      const std::string key = entry.info.key;
      if (entry.info.dtype != SHAMPOO_BF16) continue;
      const Array expected = nearest.Read(key);
      const Array found = stochastic.Read(key);
      int differ = 0;
      for (size_t i = 0; i < expected.size(); ++i) {
        const double value = expected.Get(i);
        const double unit = value == 0 ? 0 : std::ldexp(1, std::ilogb(value) - 7);
        CHECK_MESSAGE(std::fabs(found.Get(i) - value) <= unit, key);
        differ += found.Get(i) != expected.Get(i) ? 1 : 0;
      }
      // A quarter of the elements is expected to differ.
      const auto elements = static_cast<int>(expected.size());
      const bool is_zero = expected.Get(0) == 0;  // such as an average that has not started
      CHECK_MESSAGE((is_zero || (differ > elements / 8 && differ < elements / 2)), key);
    }
  }
}

TEST_CASE("with stochastic rounding, a bf16 second moment follows that of a float32 run, even with beta2 near 1") {
  // The gradients are three times as large in the first 2,000 steps as in later steps. With rounding to nearest, the
  // second moment would not decrease again.
  const Keys keys = "method=adam beta1=0 beta2=0.999 lr=1e-06";
  constexpr size_t kElements = 1024;
  const std::vector<shampoo_param_desc> params = {Param("w", {kElements})};
  Host wide(keys, params);
  Host narrow(keys + kStochastic + "second_moment_dtype=bf16", params);
  Host* const hosts[] = {&wide, &narrow};
  std::mt19937_64 random(3);
  for (int step = 1; step <= 22000; ++step) {
    wide.FillGradients(random);
    if (step <= 2000) {
      for (size_t i = 0; i < kElements; ++i) wide.tensors[0].g.Set(i, 3 * wide.tensors[0].g.Get(i));
    }
    narrow.tensors[0].g = wide.tensors[0].g;
    for (Host* const host : hosts) host->Step();
    if (step % 2000 != 0) continue;
    double sums[2] = {};
    for (int k = 0; k < 2; ++k) {
      const Array moment = hosts[k]->Read("w/0/second_moment");
      for (size_t i = 0; i < kElements; ++i) sums[k] += moment.Get(i);
    }
    CHECK(sums[1] == doctest::Approx(sums[0]).epsilon(0.02));
  }
}

TEST_CASE("with param_rounding=stochastic, updates that are too small for bfloat16 have an effect") {
  const Keys keys = "method=sgd lr=0.000244140625";
  double means[2] = {};
  for (const bool is_stochastic : {false, true}) {
    Host host(keys + Keys{{"param_rounding", is_stochastic ? "stochastic" : "nearest"}},
              {Param("w", {64, 64}, SHAMPOO_BF16)});
    for (size_t i = 0; i < 4096; ++i) host.tensors[0].w.Set(i, 1), host.tensors[0].g.Set(i, 1);
    for (int step = 1; step <= 100; ++step) host.Step();
    for (size_t i = 0; i < 4096; ++i) means[is_stochastic ? 1 : 0] += host.tensors[0].w.Get(i) / 4096;
  }
  CHECK(means[0] == 1);
  // On average, 6.25 of the 100 steps decrease an element, each by 1/256. The bound is four standard deviations of the
  // mean.
  const double expected = 1 - 100 * 0.000244140625;
  CHECK(std::fabs(means[1] - expected) < 4 * 2.5 / 256 / 64);
}

TEST_CASE("a bf16 second moment that would stall is accepted only with state_rounding=stochastic") {
  const Keys keys = "method=adam second_moment_dtype=bf16";
  CHECK(PlanError(keys) ==
        "keys second_moment_dtype and beta2: the values bf16 and 0.999 are not allowed together, because rounding "
        "would undo every decay of the second moment: expected beta2 of at most 0.99609375, or "
        "state_rounding=stochastic, or second_moment_dtype=f32");
  const PlanPtr made = MakePlan(keys + kStochastic);
  // A float16 second moment is rejected, because float16 is always rounded to nearest.
  PlanError("method=adam second_moment_dtype=f16 beta2=0.9999" + kStochastic);
}

TEST_CASE("with bf16 states and stochastic rounding, the state has the bytes per element that docs/methods.md lists") {
  const Keys bf16 = kStochastic + "filtered_grad_dtype=bf16";
  const Keys moment = "second_moment_dtype=bf16";
  const std::pair<Keys, double> cases[] = {
      {"preset=shampoo grafting_dtype=bf16", 12},
      {"preset=shampoo grafting_dtype=bf16 factor_dtype=bf16 inverse_dtype=bf16", 8},
      {"preset=soap" + moment, 16},
      {"preset=kl_shampoo", 14},
      {"preset=adamw" + moment, 4},
      {"preset=muon", 2}};
  for (const auto& [keys, bytes] : cases) {
    shampoo_config* config = nullptr;
    RequireOk(shampoo_config_create(&config));
    const ConfigPtr owned(config);
    for (const auto& [key, value] : bf16 + keys) RequireOk(shampoo_config_set_str(config, key.c_str(), value.c_str()));
    const shampoo_plan_desc desc = SHAMPOO_PLAN_DESC_INIT;
    shampoo_plan* handle = nullptr;
    RequireOk(shampoo_plan_create(&handle, config, &desc));
    const PlanPtr plan(handle);
    AddParam(plan, Param("w", {1024, 1024}));
    RequireOk(shampoo_plan_finish(plan.get()));
    const auto total = static_cast<double>(PlanBytes(plan.get(), 0, "state"));
    CHECK(total / (1024 * 1024) == doctest::Approx(bytes).epsilon(0.01));
  }
}

}  // namespace
}  // namespace shampoo_test
