// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks that the device makes the same steps as the CPU for parameters of different shapes.
#include "tests/cuda/against_cpu/course.h"

namespace shampoo_test {
namespace {

Course CourseOfShapes(const Shapes& shapes, int32_t dtype, const Keys& keys) {
  const Keys all =
      Keys{{"grafting", "rmsprop"}, {"epsilon", dtype == SHAMPOO_F64 ? "1e-3" : "0.1"}, {"momentum", "0.9"}} + keys;
  return {.spec = {all, ParamsOf(shapes, dtype)}, .steps = 4};
}

TEST_CASE("tensors of order 0 to 5 take the same steps as on the CPU") {
  const Shapes shapes = {{7}, {4, 6}, {3, 5, 4}, {2, 3, 4, 3}, {2, 3, 2, 4, 3}, {}};
  for (const int32_t dtype : {SHAMPOO_F64, SHAMPOO_F32}) {
    CHECK(Difference(CourseOfShapes(shapes, dtype, {{"use_merge_dims", "false"}})) == "");
  }
  CHECK(Difference(CourseOfShapes(shapes, SHAMPOO_F64, {{"use_merge_dims", "false"}, {"grafting", "none"}})) == "");
}

TEST_CASE("scalars, and tensors with dims of length 1 or 0, take the same steps as on the CPU") {
  const Shapes shapes = {{1}, {1, 1}, {1, 5}, {5, 1}, {3, 1, 4}, {1, 4, 1}, {1, 1, 1, 6}, {2, 1, 3, 1}, {4, 0, 2}};
  for (const char* merges : {"false", "true"}) {
    CHECK(Difference(CourseOfShapes(shapes, SHAMPOO_F64, {{"use_merge_dims", merges}})) == "");
    CHECK(Difference(CourseOfShapes(shapes, SHAMPOO_F32, {{"use_merge_dims", merges}})) == "");
  }
}

TEST_CASE("parameters with several blocks or merged dims take the same steps as on the CPU") {
  const Shapes shapes = {{23}, {9, 13}, {5, 6, 7}, {2, 9, 3, 5}, {6, 2, 2, 9}};
  for (const Keys& keys : Combinations("use_merge_dims=false|true max_preconditioner_dim=1|4|12")) {
    CAPTURE(keys);
    Course course = CourseOfShapes(shapes, SHAMPOO_F64, keys);
    course.spec.params[1].in_place = false;
    course.spec.params[2].copy_dtype = SHAMPOO_F64;
    CHECK(Difference(course) == "");
  }
}

TEST_CASE("stacked tensors take the same steps as on the CPU") {
  Course course = CourseOfShapes({{3, 4, 5}, {2, 2, 6}}, SHAMPOO_F64, {{"max_preconditioner_dim", "4"}});
  course.spec.params[0].stack_dims = 1;
  course.spec.params[1].stack_dims = 2;
  CHECK(Difference(course) == "");
}

TEST_CASE("matrices around the sizes at which the device changes its method take the same steps as on the CPU") {
  // The device solves eigenproblems up to size 32 with Jacobi's method. From size 128 on, it stores symmetric matrices
  // as triangles. Its tiles have 64 rows or 4096 elements.
  const Shapes shapes = {{31, 32}, {33, 34}, {63, 64}, {65, 5}, {127, 3}, {3, 128}, {130, 66}, {5, 2, 129}};
  Course course = CourseOfShapes(shapes, SHAMPOO_F64, {{"use_merge_dims", "false"}});
  course.steps = 2;
  CHECK(Difference(course) == "");
  course = CourseOfShapes(shapes, SHAMPOO_F32, {{"use_merge_dims", "false"}, {"epsilon", "10"}});
  course.steps = 3;
  CHECK(Difference(course) == "");
  course.spec.keys.insert(course.spec.keys.end(), {{"factor_dtype", "bf16"}, {"inverse_dtype", "f16"}});
  CHECK(Difference(course) == "");
}

TEST_CASE("large factor matrices are computed in panels of rows and equal those of the CPU") {
  const Shapes shapes = {{515, 9}, {9, 613}, {3, 512, 2}};
  for (const int32_t dtype : {SHAMPOO_F64, SHAMPOO_F32}) {
    Course course = CourseOfShapes(
        shapes, dtype,
        {{"use_merge_dims", "false"}, {"max_preconditioner_dim", "2000"}, {"start_preconditioning_step", "9"}});
    course.steps = 2;
    CHECK(Difference(course) == "");
  }
  Course course = CourseOfShapes({{513, 2}}, SHAMPOO_F32, {{"epsilon", "30"}, {"root_method", "newton"}});
  course.steps = 1;
  CHECK(Difference(course) == "");
}

TEST_CASE("many small vectors in many groups take the same steps as on the CPU") {
  Course course = CourseOfShapes({}, SHAMPOO_F32, {});
  for (int64_t p = 0; p < 300; ++p) {
    course.spec.params.push_back({{1 + p % 9}});
    course.spec.params.back().group = static_cast<int32_t>(p % 11);
    course.spec.params.back().in_place = p % 3 != 0;
  }
  for (const char* lr : {"0.02", "0.03", "0.05", "0.07", "0.11", "0.13", "0.17", "0.19", "0.23", "0.29"}) {
    course.spec.groups.push_back({{"lr", lr}});
  }
  CHECK(Difference(course) == "");
}

TEST_CASE("groups that differ in many options take the same steps as on the CPU") {
  Course course =
      CourseOfShapes({{5, 4}, {6}, {4, 5}, {5, 4}, {3, 3, 3}, {5, 4}}, SHAMPOO_F64, {{"use_merge_dims", "false"}});
  for (size_t p = 0; p < 6; ++p) course.spec.params[p].group = static_cast<int32_t>(p / 2 + p % 2);
  course.spec.groups = {
      {{"grafting", "adam"}, {"beta2", "0.9"}, {"root_method", "newton"}, {"weight_decay", "0.1"}, {"momentum", "0"}},
      {{"grafting", "none"}, {"beta1", "0"}, {"precondition_frequency", "3"}, {"initial_inverse", "zero"}},
      {{"root_method", "higher_order"}, {"epsilon", "1e-2"}, {"root_spread", "true"}, {"precondition_frequency", "2"}}};
  course.steps = 8;
  CHECK(Difference(course) == "");
  course.has_gradient = [](int64_t t, size_t p) { return p / 2 + p % 2 != 1 || t % 3 != 0; };
  CHECK(Difference(course) == "");
}

}  // namespace
}  // namespace shampoo_test
