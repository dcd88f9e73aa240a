// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Compares stochastic rounding (keys state_rounding and param_rounding) on the device and on the CPU. On the fake CUDA,
// the results of methods that process each element separately are bit-identical to those of the CPU. The states of
// other methods differ by rounding errors, which seldom change how a state is rounded to bfloat16. If the device used
// other random numbers than the CPU, about a third of the rounded elements would differ. An element at the fraction f
// of the way between two bfloat16 numbers would differ with probability 2 f (1 - f), whose mean is 1/3.
#include <cmath>

#include "tests/cuda/against_cpu/course.h"
#include "tests/cuda/tools/stage.h"

namespace shampoo_test {
namespace {

const Keys kStochastic = "state_rounding=stochastic param_rounding=stochastic";
const Keys kNearest = "state_rounding=nearest param_rounding=nearest";
const Keys kNarrowStates = "filtered_grad_dtype=bf16 beta1=0.9 lr=0.05";
const Keys kMomentum = "momentum=0.9 momentum_dtype=bf16";
const Keys kSecondMoment = "beta2=0.99 second_moment_dtype=bf16";
const Keys kGrafting = "grafting=adam grafting_beta2=0.99 grafting_dtype=bf16";
const std::vector<Keys> kRoundedMethods = {Keys("method=adam weight_decay=0.1") + kSecondMoment + kMomentum,
                                           Keys("method=sgd use_nesterov=true") + kMomentum,
                                           {{"method", "sign"}, {"weight_decay", "0.1"}}};
const Keys kNarrowEma = "weight_ema=0.9 average_dtype=bf16";
const std::vector<Keys> kRoundedAverages = {
    {},
    {{"averaging", "gpa"}, {"average_dtype", "bf16"}, {"momentum", "0"}},
    {{"averaging", "schedule_free"}, {"average_dtype", "bf16"}, {"momentum", "0"}},
    kNarrowEma};

// Returns parameters of one to three dims. One parameter is fused and one is stacked. The largest has several tiles.
std::vector<ParamSpec> RoundedParams(bool in_place) {
  std::vector<ParamSpec> params;
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{9, 7}, {3, 4, 5}, {13}, {1}, {90, 70}}) {
    params.push_back({shape, SHAMPOO_BF16, SHAMPOO_F32, SHAMPOO_BF16, in_place});
  }
  params.push_back({{10, 11}, SHAMPOO_BF16, SHAMPOO_BF16, SHAMPOO_BF16, in_place, SHAMPOO_BF16});
  params.back().row_splits = {3, 5, 2};
  params.push_back({{3, 7, 5}, SHAMPOO_BF16, SHAMPOO_BF16, SHAMPOO_BF16, in_place});
  params.back().stack_dims = 1;
  params.push_back({{5, 3}, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_BF16, false});
  params.push_back({{6, 5}, SHAMPOO_F16, SHAMPOO_F32, SHAMPOO_F16, in_place});
  return params;
}

Course RoundedCourse(const Keys& keys, bool in_place = true) {
  return {.spec = {kNarrowStates + kStochastic + keys, RoundedParams(in_place)}, .steps = 5};
}

// Returns the names of the buffers and states in which the fraction of differing elements is above `fraction`.
std::string Differing(const Results& device, const Results& host, double fraction) {
  if (device.names != host.names) return "the device and the CPU have different states";
  std::string text;
  for (size_t i = 0; i < host.names.size(); ++i) {
    const std::vector<double>& expected = host.values[i];
    size_t differing = 0;
    for (size_t k = 0; k < expected.size(); ++k) differing += device.values[i][k] != expected[k] ? 1 : 0;
    if (static_cast<double>(differing) <= fraction * static_cast<double>(expected.size())) continue;
    text += host.names[i] + ": " + std::to_string(differing) + " of " + std::to_string(expected.size()) + "\n";
  }
  return text;
}

// A GPU and the CPU may round intermediate results differently. This seldom changes a rounded state, so on a GPU up to
// a tenth of the elements may differ.
void CheckSameBits(const Course& course) {
  CHECK(Differing(Run(course, SHAMPOO_CUDA), Run(course, SHAMPOO_CPU), OnFake() ? 0 : 0.1) == "");
}

TEST_CASE("with stochastic rounding, elementwise methods give results that are bit-identical to those of the CPU") {
  for (const Keys& method : kRoundedMethods) {
    for (const Keys& average : kRoundedAverages) {
      for (const char* output : {"parameters", "updates"}) {
        const Keys keys = method + average + Keys{{"output", output}};
        CAPTURE(keys);
        Course course = RoundedCourse(keys, output == std::string("parameters"));
        course.has_gradient = [](int64_t t, size_t p) { return t != 4 || p % 2 == 1; };
        CheckSameBits(course);
      }
    }
  }
}

TEST_CASE(
    "state_rounding affects only states, and param_rounding only parameters, each only in the groups that set it") {
  const Keys adam = kRoundedMethods[0] + kNarrowEma;
  const Results nearest = Run(RoundedCourse(adam + kNearest), SHAMPOO_CUDA);
  for (const auto& [key, rounds_states] : {std::pair{"state_rounding", true}, {"param_rounding", false}}) {
    CAPTURE(std::string(key));
    Course course = RoundedCourse(adam + kNearest + Keys{{key, "stochastic"}});
    course.steps = 1;
    CheckSameBits(course);
    Course plain = RoundedCourse(adam + kNearest);
    plain.steps = 1;
    const Results device = Run(course, SHAMPOO_CUDA);
    const Results of_nearest = Run(plain, SHAMPOO_CUDA);
    for (const char* state : {"filtered_grad", "second_moment", "momentum"}) {
      const std::string name = std::string("p4/0/") + state;
      CHECK((device.Of(name) != of_nearest.Of(name)) == rounds_states);
    }
    CHECK((device.Of("p4") != of_nearest.Of("p4")) != rounds_states);
    CHECK(device.Of("p8") == of_nearest.Of("p8"));  // p8 has dtype float16: param_rounding does not apply
  }
  Course seeded = RoundedCourse(adam + Keys("rounding_seed=7"));
  CheckSameBits(seeded);
  CHECK(Run(seeded, SHAMPOO_CUDA).Of("p4") != Run(RoundedCourse(adam), SHAMPOO_CUDA).Of("p4"));
  // The default group rounds to nearest.
  Course groups = RoundedCourse(adam + kNearest);
  groups.spec.groups = {kStochastic};
  groups.spec.params[4].group = 1;
  CheckSameBits(groups);
  const Results device = Run(groups, SHAMPOO_CUDA);
  CHECK(device.Of("p0") == nearest.Of("p0"));
  CHECK(device.Of("p4") != nearest.Of("p4"));
}

TEST_CASE("with skipped steps, skipped blocks and missing gradients, rounded averages are those of the CPU") {
  // With count_empty_steps, a step without gradients increases the step counter, which selects the random numbers.
  for (const Keys& more : Combinations("on_nonfinite=skip_block|skip_step count_empty_steps=false|true")) {
    CAPTURE(more);
    Course course = RoundedCourse(kRoundedMethods[1] + kNarrowEma + more);
    course.steps = 8;
    course.spec.groups = {{{"lr", "0.02"}}};
    course.spec.params[2].group = course.spec.params[4].group = 1;
    course.has_gradient = [](int64_t t, size_t p) { return t != 6 && ((p != 2 && p != 4) || t % 2 == 1); };
    course.before = [](int64_t t, Model* model) {
      if (t == 4 || t == 7) model->SpoilGradient(1, 2, NAN);
    };
    CheckSameBits(course);
  }
}

// Returns the absolute values of the elements. In an eigenbasis, the signs of the elements are arbitrary. Rounding does
// not depend on the sign.
std::vector<double> Magnitudes(std::vector<double> values) {
  for (double& value : values) value = std::fabs(value);
  return values;
}

// Checks that at most 5 % of the elements of each parameter and each bfloat16 state differ between the device and the
// CPU. `steps` must be small, so that rounding errors hardly accumulate. See Course for `gradient`.
void CheckMostBits(const Keys& keys, int64_t steps, const Shapes& shapes,
                   const decltype(Course::gradient)& gradient = {}) {
  for (const char* computation : {"f32", "f64"}) {
    INFO(keys, " computation_dtype=", std::string(computation));
    Course course{.steps = steps, .gradient = gradient};
    course.spec.keys = kNarrowStates + kStochastic + keys + Keys{{"computation_dtype", computation}};
    for (const std::vector<int64_t>& shape : shapes) {
      course.spec.params.push_back({shape, SHAMPOO_BF16, SHAMPOO_F32, SHAMPOO_BF16});
    }
    const Results host = Run(course, SHAMPOO_CPU);
    const Results device = Run(course, SHAMPOO_CUDA);
    REQUIRE(device.names == host.names);
    Results of_host;
    Results of_device;
    for (size_t i = 0; i < host.names.size(); ++i) {
      const std::string& name = host.names[i];
      const bool is_param = name.find('/') == std::string::npos;
      const bool is_narrow = name.ends_with("_grad") || name.ends_with("/momentum") || name.ends_with("_moment") ||
                             name.ends_with("/grafting");
      if (!is_param && !is_narrow) continue;
      of_host.names.push_back(name);
      of_host.values.push_back(Magnitudes(host.values[i]));
      of_device.values.push_back(Magnitudes(device.values[i]));
    }
    of_device.names = of_host.names;
    CHECK(Differing(of_device, of_host, 0.05) == "");
  }
}

TEST_CASE("with stochastic rounding, methods shampoo and muon round on the device as on the CPU") {
  const Shapes shapes = {{20, 30}, {70, 40}, {400}};
  const Keys shampoo = "method=shampoo epsilon=0.1";
  CheckMostBits(shampoo + kGrafting, 2, shapes);
  CheckMostBits(shampoo + kMomentum, 2, shapes);
  CheckMostBits(shampoo + kGrafting + Keys("max_preconditioner_dim=16"), 2, shapes);
  const Keys muon = "method=muon adam_lr=0.01";
  CheckMostBits(muon, 2, shapes);
  CheckMostBits(muon + kSecondMoment + Keys("second_moment=element"), 2, shapes);
}

// Returns the gradient of a square matrix (parameter 0) or of a vector. In the first step, the singular values of the
// matrix's gradient are so large and so far apart that the eigenvalues of factor matrices stay far apart afterwards.
std::vector<double> SeparatedGradient(int64_t t, size_t p, size_t elements) {
  std::vector<double> gradient = Sequence(static_cast<uint64_t>(t) * 1000 + 500 + p, elements);
  if (p > 0 || t > 1) return gradient;
  const auto n = static_cast<size_t>(std::sqrt(static_cast<double>(elements)));
  for (double& value : gradient) value /= 8;
  for (size_t i = 0; i < n; ++i) gradient[i * n + i] += static_cast<double>(n + i);
  return gradient;
}

TEST_CASE("methods that use eigenbases round on the device as on the CPU even after a refresh has rotated the states") {
  // In float32, the eigenvectors of neighboring eigenvalues differ between implementations. If the eigenvalues are far
  // apart, these differences are much smaller than the spacing of bfloat16 numbers.
  const Shapes shapes = {{40, 40}, {1000}};
  const Keys soap = Keys("method=soap shampoo_beta=0.99 precondition_frequency=2") + kSecondMoment;
  CheckMostBits(soap, 1, shapes, SeparatedGradient);
  CheckMostBits(soap, 3, shapes, SeparatedGradient);
  CheckMostBits(soap + kGrafting + Keys("basis_order=before"), 2, shapes, SeparatedGradient);
  CheckMostBits({{"method", "kl_shampoo"}, {"precondition_frequency", "2"}}, 2, shapes, SeparatedGradient);
}

}  // namespace
}  // namespace shampoo_test
