// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests gradients that are not finite or that overflow a state. The device must behave like the CPU, except that
// with status_lag=1 the device reports an error one call later.
#include "tests/cuda/contract/pair.h"

namespace shampoo_test {
namespace {

// A gradient with one bad element.
struct Bad {
  const char* what;
  Keys keys;
  size_t param;
  size_t element;
  double value;
};

const std::vector<Bad> kBad = {
    {"NaN", {}, 3, 17, NAN},
    {"infinity", {}, 2, 23, -kInfinity},
    {"NaN in the first element", {}, 0, 0, NAN},
    {"infinity in a vector", {}, 1, 4, kInfinity},
    {"a filtered gradient that overflows float16", {{"filtered_grad_dtype", "f16"}}, 3, 35, 1e5},
    {"a second moment that overflows float16", {{"grafting_dtype", "f16"}}, 4, 20, -2e4},
    {"a factor matrix that overflows float16", {{"factor_dtype", "f16"}}, 3, 5, 300},
    {"a square that overflows", {}, 5, 11, 1e25},
    {"a scaled gradient that overflows", {{"gradient_scale", "1e3"}, {"epsilon", "1e5"}}, 5, 11, 1e37},
};

ModelSpec SpecOf(const Bad& bad, const Keys& keys) {
  ModelSpec spec = FiveShapes(Keys("max_preconditioner_dim=4") + keys + bad.keys);
  spec.params[2].in_place = false;
  spec.params[3].copy_dtype = SHAMPOO_BF16;
  return spec;
}

// Returns all parameters and states. Separate outputs are left out, because even a skipped step writes them.
std::vector<std::vector<double>> ParamsAndStates(const Model& model) {
  std::vector<std::vector<double>> all;
  for (size_t p = 0; p < model.params(); ++p) all.push_back(model.ParamValues(p));
  for (const std::string& key : model.Keys()) all.push_back(model.State(key));
  return all;
}

// Calls run(bad, pair) for each bad gradient with a new Pair, whose two optimizers have made three steps. Then checks
// that later steps of both optimizers give equal results.
template <typename Run>
void ForEachBad(const Keys& keys, const Run& run) {
  for (const Bad& bad : kBad) {
    INFO(std::string(bad.what), ", ", keys);
    const StageWithStream stream;
    fake_cuda_set_protection(0);
    Pair pair(SpecOf(bad, keys), stream);
    pair.Train(1, 3);
    run(bad, pair);
    CHECK(pair.DifferingCounters() == "");
    pair.Train(5, 7);
    CHECK(pair.DifferingValues(2e-3) == "");
    pair.device.MustSucceed();
    CHECK(pair.DifferingCounters() == "");
  }
}

TEST_CASE(
    "with on_nonfinite=error a failed step changes nothing, and its error message ends with the message of the CPU") {
  for (const Keys& lag : kLags) {
    ForEachBad(Keys("on_nonfinite=error") + lag, [&](const Bad& bad, Pair& pair) {
      const std::vector<char> before = BitsOf(pair.device);
      pair.Each([&](Model& model) { model.SpoilGradient(bad.param, bad.element, bad.value); });
      CHECK(pair.host.TryStep() == SHAMPOO_E_NUMERIC);
      const std::string expected = shampoo_last_error();
      shampoo_status status = pair.device.TryStep();
      if (ReportsLate(lag)) {
        CHECK(status == SHAMPOO_OK);
        status = pair.device.TryStep();
      }
      CHECK(status == SHAMPOO_E_NUMERIC);
      const std::string text = shampoo_last_error();
      CHECK(text.ends_with(expected));
      if (!ReportsLate(lag)) CHECK(text.size() == expected.size());
      CHECK(BitsOf(pair.device) == before);
    });
  }
}

TEST_CASE("with on_nonfinite=skip_step or on_nonfinite=skip_block the device skips the same blocks as the CPU") {
  for (const Keys& keys : Combinations("on_nonfinite=skip_step|skip_block status_lag=0|1")) {
    ForEachBad(keys, [&](const Bad& bad, Pair& pair) {
      const auto before = ParamsAndStates(pair.device);
      pair.Each([&](Model& model) {
        model.SpoilGradient(bad.param, bad.element, bad.value);
        model.Step();
      });
      CHECK((ParamsAndStates(pair.device) == before) == (keys.Value("on_nonfinite") == "skip_step"));
      CHECK(pair.DifferingValues(2e-3) == "");
      CHECK(pair.device.CopyValues(3) == pair.host.CopyValues(3));
      CHECK(pair.host.Stat("nonfinite_blocks") == 1);
    });
  }
}

}  // namespace
}  // namespace shampoo_test
