// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Compares training on the device with training on the CPU. In the courses (see course.h), gradients are missing,
// invalid, diagonal or 0, or the test sets states or hyper-parameters between steps.
#include <cmath>
#include <limits>

#include "tests/cuda/against_cpu/course.h"

namespace shampoo_test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Course CourseWithGradients(const Keys& keys) {
  Course course{.steps = 9};
  course.spec.keys = Keys("use_merge_dims=false epsilon=1e-3 momentum=0.9 grafting=adam") + keys;
  const auto add = [&](const std::vector<int64_t>& shape, bool in_place, int32_t group) {
    course.spec.params.push_back({shape, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F64, in_place, SHAMPOO_F64, group});
  };
  add({5, 4}, true, 0);
  add({5, 4}, false, 0);
  add({5, 4}, true, 1);
  add({6}, false, 1);
  course.spec.groups = {{{"weight_decay", "0.1"}, {"precondition_frequency", "2"}}};
  return course;
}

TEST_CASE(
    "the device takes the same steps as the CPU if some parameters or whole groups or all parameters lack gradients") {
  for (const Keys& keys : Combinations("precondition_frequency=1|3 root_spread=false|true output=parameters|updates")) {
    CAPTURE(keys);
    Course course = CourseWithGradients(keys);
    course.has_gradient = [](int64_t t, size_t p) {
      if (t == 4) return false;            // no parameter has a gradient
      if (p >= 2 && t == 2) return false;  // no parameter of group 1 has a gradient
      return (static_cast<size_t>(t) + p) % 3 != 0;
    };
    for (ParamSpec& param : course.spec.params) {
      param.in_place = param.in_place && keys.Value("output") != "updates";
    }
    CHECK(Difference(course) == "");
  }
}

TEST_CASE(
    "a block without a gradient at the first preconditioned step uses the initial inverse until the next refresh") {
  for (const char* initial : {"identity", "zero"}) {
    Course course = CourseWithGradients({{"precondition_frequency", "3"}, {"initial_inverse", initial}});
    course.has_gradient = [](int64_t t, size_t p) { return p != 1 || t != 3; };
    course.steps = 5;
    CHECK(Difference(course) == "");
  }
}

TEST_CASE("blocks or steps whose gradients have NaN or an infinity are skipped as on the CPU") {
  for (const Keys& keys : Combinations("on_nonfinite=skip_block|skip_step max_preconditioner_dim=1024|3")) {
    CAPTURE(keys);
    Course course = CourseWithGradients(keys);
    course.gradient = [](int64_t t, size_t p, size_t elements) {
      std::vector<double> values = Sequence(static_cast<uint64_t>(t) * 10 + p, elements);
      if (p == 1 && t == 3) values[2] = kNan;
      if (p == 3 && t > 4) values[5] = -HUGE_VAL;
      return values;
    };
    CHECK(Difference(course) == "");
  }
}

void CheckDiagonal(const Keys& keys) {
  Course course = CourseWithGradients(keys);
  course.gradient = [](int64_t t, size_t p, size_t elements) {
    std::vector<double> values = Sequence(static_cast<uint64_t>(t) * 10 + p, elements);
    const bool diagonal = p != 1 || t < 4;
    for (size_t i = 0; i < elements && diagonal; ++i) values[i] = i % 5 == 0 ? values[i] : 0;
    return values;
  };
  CHECK(Difference(course) == "");
  const Results results = Run(course, SHAMPOO_CUDA);
  CHECK(results.Of("p0/0/diagonal") == std::vector<double>{1, 1});
  CHECK(results.Of("p1/0/diagonal") == std::vector<double>{0, 0});
  // A factor matrix whose state `diagonal` is 0 is never treated as diagonal again.
  course.before = [](int64_t t, Model* model) {
    if (t == 6) model->SetState("p0/0/diagonal", {0, 1});
    if (t == 7) model->SetState("p2/0/factor.1", std::vector<double>(16, 0.0));
  };
  CHECK(Difference(course) == "");
}

TEST_CASE("factor matrices that are diagonal only at first have the same roots as on the CPU") {
  CheckDiagonal({{"beta2", "0.9"}});
  CheckDiagonal({{"beta2", "0.9"}, {"precondition_frequency", "2"}, {"root_async", "1"}});
}

TEST_CASE(
    "with gradients of 0, and states that are written between steps, the device takes the same steps as the CPU") {
  Course course = CourseWithGradients({});
  course.gradient = [](int64_t t, size_t p, size_t elements) {
    return t % 2 == 1 ? std::vector<double>(elements, 0.0) : Sequence(static_cast<uint64_t>(t) * 10 + p, elements);
  };
  course.before = [](int64_t t, Model* model) {
    if (t == 4) model->SetState("p1/0/momentum", Sequence(77, 20));
    if (t == 5) model->SetState("group.1/step", {40});
  };
  CHECK(Difference(course) == "");
}

TEST_CASE("hyper-parameters that are set between steps have the same effect as on the CPU") {
  Course course = CourseWithGradients("weight_decay=0.1");
  course.before = [](int64_t t, Model* model) {
    const std::pair<const char*, double> values[] = {{"lr", 0.3},
                                                     {"beta1", 0.5},
                                                     {"beta2", 0.7},
                                                     {"epsilon", 0.2},
                                                     {"momentum", 0.4},
                                                     {"weight_decay", 0.3},
                                                     {"grafting_beta2", 0.8},
                                                     {"grafting_epsilon", 0.1},
                                                     {"gradient_scale", 0.5}};
    if (t < 2) return;
    const auto& [key, value] = values[static_cast<size_t>(t - 2)];
    Must(shampoo_optimizer_set(model->optimizer, static_cast<int32_t>(t % 2), key, value));
  };
  course.steps = 10;
  CHECK(Difference(course) == "");
}

}  // namespace
}  // namespace shampoo_test
