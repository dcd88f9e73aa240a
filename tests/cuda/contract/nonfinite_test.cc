// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Gradients that are not finite: the device behaves like the CPU; with status_lag 1, it reports errors one call later.
#include "tests/cuda/contract/pair.h"

namespace shampoo_test {
namespace {

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
    {"the first element", {}, 0, 0, NAN},
    {"a vector", {}, 1, 4, kInfinity},
    {"a narrow filtered gradient", {{"filtered_grad_dtype", "f16"}}, 3, 35, 1e5},
    {"a narrow moment", {{"grafting_dtype", "f16"}}, 4, 20, -2e4},
    {"a narrow factor", {{"factor_dtype", "f16"}}, 3, 5, 300},
    {"the square", {}, 5, 11, 1e25},
    {"the scaled gradient", {{"gradient_scale", "1e3"}, {"epsilon", "1e5"}}, 5, 11, 1e37},
};

ModelSpec SpecOf(const Bad& bad, const char* choice, const char* lag) {
  Keys keys = Keys{{"on_nonfinite", choice}, {"status_lag", lag}, {"max_preconditioner_dim", "4"}} + bad.keys;
  ModelSpec spec = FiveShapes(keys);
  spec.params[2].in_place = false;
  spec.params[3].copy_dtype = SHAMPOO_BF16;
  return spec;
}

// Returns all parameters and states, without separate outputs, which every step writes.
std::vector<std::vector<double>> ParamsAndStates(const Model& model) {
  std::vector<std::vector<double>> all;
  for (size_t p = 0; p < model.params(); ++p) all.push_back(model.ParamValues(p));
  for (const std::string& key : model.Keys()) all.push_back(model.State(key));
  return all;
}

TEST_CASE("on_nonfinite error: the step changes nothing, and the error message equals that of the CPU") {
  for (const Bad& bad : kBad) {
    for (const char* lag : {"0", "1"}) {
      CAPTURE(std::string(bad.what));
      CAPTURE(std::string(lag));
      const Stage stage;
      fake_cuda_set_protection(0);
      const TestStream stream;
      Pair pair(SpecOf(bad, "error", lag), stream);
      pair.Train(1, 3);
      const std::vector<char> before = BitsOf(pair.device);
      pair.Each([&](Model& model) { model.SpoilGradient(bad.param, bad.element, bad.value); });
      CHECK(pair.host.TryStep() == SHAMPOO_E_NUMERIC);
      const std::string expected = shampoo_last_error();
      shampoo_status status = pair.device.TryStep();
      if (lag == std::string("1")) {
        CHECK(status == SHAMPOO_OK);
        status = pair.device.TryStep();
      }
      CHECK(status == SHAMPOO_E_NUMERIC);
      const std::string text = shampoo_last_error();
      CHECK(text.substr(text.size() < expected.size() ? 0 : text.size() - expected.size()) == expected);
      if (lag == std::string("0")) CHECK(text.size() == expected.size());
      CHECK(BitsOf(pair.device) == before);
      CHECK(pair.DifferingCounters() == "");
      pair.Train(5, 7);
      CHECK(pair.DifferingValues(2e-3) == "");
      Must(shampoo_optimizer_status(pair.device.optimizer, 1, nullptr));
      CHECK(pair.DifferingCounters() == "");
    }
  }
}

TEST_CASE("on_nonfinite skip_step and skip_block: the device skips what the CPU skips, and only counters report it") {
  for (const Bad& bad : kBad) {
    for (const char* choice : {"skip_step", "skip_block"}) {
      for (const char* lag : {"0", "1"}) {
        CAPTURE(std::string(bad.what));
        CAPTURE(std::string(choice));
        CAPTURE(std::string(lag));
        const Stage stage;
        fake_cuda_set_protection(0);
        const TestStream stream;
        Pair pair(SpecOf(bad, choice, lag), stream);
        pair.Train(1, 3);
        const auto before = ParamsAndStates(pair.device);
        pair.Each([&](Model& model) {
          model.SpoilGradient(bad.param, bad.element, bad.value);
          model.Step();
        });
        CHECK((ParamsAndStates(pair.device) == before) == (choice == std::string("skip_step")));
        CHECK(pair.DifferingValues(2e-3) == "");
        CHECK(pair.device.CopyValues(3) == pair.host.CopyValues(3));
        CHECK(pair.DifferingCounters() == "");
        CHECK(pair.host.Stat("nonfinite_blocks") == 1);
        pair.Train(5, 7);
        CHECK(pair.DifferingValues(2e-3) == "");
        Must(shampoo_optimizer_status(pair.device.optimizer, 1, nullptr));
        CHECK(pair.DifferingCounters() == "");
      }
    }
  }
}

}  // namespace
}  // namespace shampoo_test
