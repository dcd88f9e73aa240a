// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks that courses (see course.h) give the same results on the device as on the CPU. The courses use different
// dtypes of parameters and states.
#include "tests/cuda/against_cpu/course.h"
#include "tests/cuda/tools/stage.h"

namespace shampoo_test {
namespace {

constexpr int32_t kDtypes[] = {SHAMPOO_F32, SHAMPOO_F64, SHAMPOO_F16, SHAMPOO_BF16};

// Factor matrices are rank-deficient. Epsilon is much larger than their rounding errors in float32. Therefore these
// errors change inverse roots much less than rounding to float16 does.
Course CourseOf(const Keys& keys) {
  return {.spec = {Keys("use_merge_dims=false epsilon=1") + keys, {{{8, 6}}, {{7}}, {{4, 3, 5}}}}, .steps = 5};
}

TEST_CASE("with all dtypes of parameters, gradients, outputs and copies, the device takes the same steps as the CPU") {
  for (const int32_t param : kDtypes) {
    for (const int32_t grad : kDtypes) {
      Course course = CourseOf("weight_decay=0.1 grafting=sgd max_preconditioner_dim=5");
      for (size_t p = 0; p < course.spec.params.size(); ++p) {
        ParamSpec& spec = course.spec.params[p];
        spec.param_dtype = param;
        spec.grad_dtype = grad;
        spec.out_dtype = kDtypes[(p + static_cast<size_t>(grad)) % 4];
        spec.in_place = p == 0;
        spec.copy_dtype = kDtypes[(p + static_cast<size_t>(param)) % 4];
      }
      INFO("param ", param, ", grad ", grad);
      CHECK(Difference(course) == "");
      course.spec.keys.push_back({"weight_decay_type", "coupled"});
      CHECK(Difference(course) == "");
    }
  }
}

TEST_CASE("with every dtype of each state, the device takes the same steps as the CPU") {
  const Keys keys = "momentum=0.9 grafting=adam beta2=0.9 precondition_frequency=2";
  for (const char* state :
       {"factor_dtype", "inverse_dtype", "filtered_grad_dtype", "momentum_dtype", "grafting_dtype"}) {
    for (const Keys& dtype : Combinations(Keys{{state, "f32|f64|f16|bf16"}})) {
      CAPTURE(dtype);
      Course course = CourseOf(keys + dtype);
      CHECK(Difference(course) == "");
      for (ParamSpec& param : course.spec.params) param = {param.shape, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F64};
      CHECK(Difference(course) == "");
    }
  }
}

// The device may round a few elements to another 16-bit number than the CPU. All other elements are bit-identical. On a
// GPU, rounding errors of the computation are up to about 1e-6 of the largest element. For small elements, such an
// error is a few percent of the distance between neighboring float16 numbers. If values were truncated, or if the step
// used the rounded values, about half of the elements would differ.
TEST_CASE("a state in 16 bits is rounded to nearest, and the step that computes it uses the unrounded value") {
  for (const char* dtype : {"f16", "bf16"}) {
    for (const char* computation : {"f32", "f64"}) {
      Course course = CourseOf({{"factor_dtype", dtype},
                                {"filtered_grad_dtype", dtype},
                                {"momentum_dtype", dtype},
                                {"grafting_dtype", dtype},
                                {"inverse_dtype", dtype},
                                {"momentum", "0.9"},
                                {"grafting", "adam"},
                                {"computation_dtype", computation}});
      course.steps = 2;
      course.spec.params[0].shape = {20, 30};
      const Results host = Run(course, SHAMPOO_CPU);
      const Results device = Run(course, SHAMPOO_CUDA);
      for (const char* state : {"factor.0", "factor.1", "inverse.0", "filtered_grad", "grafting", "momentum"}) {
        const std::vector<double>& a = device.Of(std::string("p0/0/") + state);
        const std::vector<double>& b = host.Of(std::string("p0/0/") + state);
        size_t differing = 0;
        for (size_t i = 0; i < a.size(); ++i) differing += a[i] != b[i] ? 1 : 0;
        INFO(std::string(state), " in ", std::string(dtype), ", computed in ", std::string(computation));
        CHECK(static_cast<double>(differing) <= (OnFake() ? 0.02 : 0.1) * static_cast<double>(a.size()));
      }
    }
  }
}

TEST_CASE("with all values of computation_dtype and root_dtype, the device takes the same steps as the CPU") {
  for (const Keys& keys :
       Combinations("computation_dtype=f32|f64 root_dtype=f32|f64 root_method=eigen|newton|higher_order|cans")) {
    CAPTURE(keys);
    Course course = CourseOf(keys);
    course.spec.params.push_back({{40, 3}});
    CHECK(Difference(course) == "");
  }
}

TEST_CASE("float32, float64 and bfloat16 parameters of one optimizer take the same steps as on the CPU") {
  Course course = CourseOf("grafting=adagrad");
  course.spec.params.insert(course.spec.params.begin() + 1, {{8, 6}, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F64});
  course.spec.params.push_back({{8, 6}, SHAMPOO_BF16, SHAMPOO_F32, SHAMPOO_BF16});
  CHECK(Difference(course) == "");
}

TEST_CASE("with each value of the key output, the buffers out and copy contain the same values as on the CPU") {
  for (const char* output : {"updates", "parameters"}) {
    Course course = CourseOf({{"output", output}, {"weight_decay", "0.1"}, {"max_preconditioner_dim", "4"}});
    for (ParamSpec& param : course.spec.params) {
      param.in_place = false;
      param.copy_dtype = SHAMPOO_F32;
    }
    course.spec.params[1].copy_dtype = 0;
    course.has_gradient = [](int64_t t, size_t p) { return p != 2 || t < 5; };
    CHECK(Difference(course) == "");
  }
}

TEST_CASE("precondition_math=tf32 changes parameters and momentum, but no factor matrix and no root") {
  Course course = CourseOf("momentum=0.9");
  course.spec.params.push_back({{70, 40}});
  course.spec.params.push_back({{4, 5}, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F64});
  const Results full = Run(course, SHAMPOO_CUDA);
  course.spec.keys.push_back({"precondition_math", "tf32"});
  const Results rounded = Run(course, SHAMPOO_CUDA);
  for (size_t i = 0; i < full.names.size(); ++i) {
    const std::string& name = full.names[i];
    CAPTURE(name);
    const double distance = Distance(rounded.values[i], full.values[i]);
    const bool may_move = name.rfind("p4", 0) != 0 &&
                          (name.find('/') == std::string::npos || name.find("/momentum") != std::string::npos);
    // cuBLAS may compute products of small matrices in float32 instead of tf32.
    const bool must_move = may_move && (OnFake() || name.rfind("p3", 0) == 0);
    CHECK(distance < 1e-2);
    if (must_move) CHECK(distance > 0);
    if (!may_move) CHECK(distance == 0);
  }
  course.tolerance = 1e-2;
  CHECK(Difference(course) == "");
}

}  // namespace
}  // namespace shampoo_test
