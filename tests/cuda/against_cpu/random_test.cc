// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Compares steps on the device with steps on the CPU for random combinations of options, shapes and dtypes. A seed
// determines each combination.
#include <random>
#include <sstream>
#include <string>

#include "tests/cuda/against_cpu/course.h"
#include "tests/cuda/fake/control.h"

namespace shampoo_test {
namespace {

// Draws random numbers and values.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  int64_t Number(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(most - least + 1));
  }
  bool Chance(int64_t one_in) { return Number(1, one_in) == 1; }
  std::string OneOf(const std::vector<std::string>& values) {
    return values[static_cast<size_t>(Number(0, static_cast<int64_t>(values.size()) - 1))];
  }
  int32_t Dtype(int32_t usual) {
    constexpr int32_t kAll[] = {SHAMPOO_F32, SHAMPOO_F64, SHAMPOO_F16, SHAMPOO_BF16};
    return Chance(3) ? kAll[Number(0, 3)] : usual;
  }

 private:
  std::mt19937_64 random_;
};

// Returns random options for a group.
Keys DrawGroup(Draw* draw) {
  Keys keys = {{"lr", draw->OneOf({"0.01", "0.3"})},
               {"beta1", draw->OneOf({"0", "0.9", "0.5"})},
               {"beta2", draw->OneOf({"1", "0.9", "0.999"})},
               {"momentum", draw->OneOf({"0", "0.9"})},
               {"use_nesterov", draw->OneOf({"false", "true"})},
               {"weight_decay", draw->OneOf({"0", "0.1"})},
               {"weight_decay_type", draw->OneOf({"coupled", "decoupled"})},
               {"use_bias_correction", draw->OneOf({"false", "true"})},
               {"grafting", draw->OneOf({"none", "sgd", "adagrad", "rmsprop", "adam"})},
               {"initial_inverse", draw->OneOf({"identity", "zero"})},
               {"gradient_scale", draw->OneOf({"1", "-0.5", "2"})},
               {"root_spread", draw->OneOf({"false", "false", "true"})},
               {"inverse_root_override", draw->OneOf({"0", "0", "3", "0,1,4"})}};
  const int64_t frequency = draw->Number(1, 4);
  keys.push_back({"precondition_frequency", std::to_string(frequency)});
  keys.push_back({"root_async", std::to_string(draw->Chance(2) ? draw->Number(0, frequency - 1) : 0)});
  const std::string later = std::to_string(frequency + draw->Number(0, 4));
  keys.push_back({"start_preconditioning_step", draw->OneOf({"-1", later})});
  const std::string method = draw->OneOf({"eigen", "eigen", "newton", "higher_order"});
  keys.push_back({"root_method", method});
  if (method == "higher_order") keys.push_back({"root_order", draw->OneOf({"2", "3", "4"})});
  keys.push_back({"exponent_multiplier", method == "eigen" ? draw->OneOf({"1", "1", "0.5"}) : "1"});
  return keys;
}

ParamSpec DrawParam(Draw* draw, int32_t usual, int64_t groups, bool updates) {
  ParamSpec param;
  const int64_t order = draw->Number(0, 5);
  const int64_t most = order < 2 ? 40 : order < 3 ? 20 : 6;
  for (int64_t k = 0; k < order; ++k) param.shape.push_back(draw->Chance(6) ? 1 : draw->Number(1, most));
  param.stack_dims = order > 1 && draw->Chance(5) ? 1 : 0;
  param.param_dtype = draw->Dtype(usual);
  param.grad_dtype = draw->Dtype(usual);
  param.out_dtype = draw->Dtype(usual);
  param.in_place = !updates && draw->Chance(2);
  param.copy_dtype = draw->Chance(3) ? draw->Dtype(usual) : 0;
  param.group = static_cast<int32_t>(draw->Number(0, groups));
  return param;
}

Course DrawCourse(uint64_t seed) {
  Draw draw(seed);
  Course course{.steps = draw.Number(3, 9)};
  const bool f64 = draw.Chance(2);
  const bool updates = draw.Chance(4);
  ModelSpec& spec = course.spec;
  spec.keys = DrawGroup(&draw);
  // Factor matrices may be rank-deficient. Epsilon is well above the rounding errors of their zero eigenvalues.
  const char* const epsilon_for_f32 = "1";
  spec.keys.push_back({"epsilon", f64 ? "1e-2" : epsilon_for_f32});
  spec.keys.push_back({"max_preconditioner_dim", draw.OneOf({"3", "8", "1024"})});
  spec.keys.push_back({"use_merge_dims", draw.OneOf({"false", "true"})});
  spec.keys.push_back({"output", updates ? "updates" : "parameters"});
  if (f64) spec.keys.push_back({"computation_dtype", "f64"});
  if (f64 && draw.Chance(4)) spec.keys.push_back({"root_dtype", "f32"});
  if (f64 && draw.Chance(4)) spec.keys.push_back({"epsilon", epsilon_for_f32});
  for (const char* state : {"inverse", "filtered_grad", "momentum", "grafting"}) {
    if (draw.Chance(5)) spec.keys.push_back({std::string(state) + "_dtype", draw.OneOf({"f32", "f64", "f16", "bf16"})});
  }
  // Rounding factor matrices to 16 bits produces spurious eigenvalues. Epsilon must be well above them.
  if (draw.Chance(3)) {
    spec.keys.insert(spec.keys.end(), {{"factor_dtype", draw.OneOf({"f16", "bf16"})}, {"epsilon", "40"}});
  }
  const int64_t groups = draw.Number(0, 2);
  for (int64_t g = 0; g < groups; ++g) spec.groups.push_back(DrawGroup(&draw));
  const int64_t params = draw.Number(1, 7);
  for (int64_t p = 0; p < params; ++p) {
    spec.params.push_back(DrawParam(&draw, f64 ? SHAMPOO_F64 : SHAMPOO_F32, groups, updates));
  }
  if (draw.Chance(2)) {
    course.has_gradient = [seed](int64_t t, size_t p) {
      return (seed + static_cast<uint64_t>(t) * 7 + p * 5) % 4 != 0;
    };
  }
  return course;
}

std::string Text(const ModelSpec& spec) {
  std::ostringstream keys;
  keys << spec.keys;
  for (const Keys& group : spec.groups) keys << "\ngroup: " << group;
  std::string text = keys.str();
  for (const ParamSpec& param : spec.params) {
    text += "\nparam:";
    for (const int64_t d : param.shape) text += " " + std::to_string(d);
    for (const int64_t d : {param.param_dtype, param.grad_dtype, param.out_dtype, param.copy_dtype, param.group}) {
      text += "; " + std::to_string(d);
    }
  }
  return text;
}

void CheckCourses(uint64_t count) {
  for (uint64_t seed = 1; seed <= count; ++seed) {
    const Course course = DrawCourse(seed);
    INFO("seed ", seed, ": ", Text(course.spec));
    fake_cuda_set_order(static_cast<int>(seed % 4), seed);
    CHECK(Difference(course) == "");
  }
  fake_cuda_set_order(FAKE_CUDA_AS_LATE_AS_POSSIBLE, 1);
}

TEST_CASE("with 15 random combinations of options, shapes and dtypes, the device takes the same steps as the CPU") {
  CheckCourses(15);
}

TEST_SUITE("long") {
  TEST_CASE("with 100 random combinations of options, shapes and dtypes, the device takes the same steps as the CPU") {
    CheckCourses(100);
  }
}

}  // namespace
}  // namespace shampoo_test
