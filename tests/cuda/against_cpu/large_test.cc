// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Compares the device with the CPU for large matrices, and for more blocks than fit into one batch, one chunk of roots
// or one batched product. On a GPU, large matrices use other kernels of cuBLAS and cuSOLVER than small matrices.
#include "tests/cuda/against_cpu/course.h"
#include "tests/cuda/tools/stage.h"

namespace shampoo_test {
namespace {

Course CourseOf(const Shapes& shapes, int32_t dtype, const Keys& keys) {
  Course course{.spec = {.params = ParamsOf(shapes, dtype), .threads = 4}, .steps = 2};
  course.spec.keys = Keys{{"grafting", "adam"},
                          {"momentum", "0.9"},
                          {"use_merge_dims", "false"},
                          {"max_preconditioner_dim", "4096"},
                          {"precondition_frequency", "1"},
                          {"epsilon", dtype == SHAMPOO_F64 ? "1e-2" : "30"}} +
                     keys;
  return course;
}

// Compares the steps of a course on the device and on the CPU. Disables the memory protection of the fake, which is
// slow for this much memory.
void Check(const Shapes& shapes, int32_t dtype, const Keys& keys = {}) {
  const Stage stage;
  fake_cuda_set_protection(0);
  CAPTURE(shapes[0][0]);
  CHECK(Difference(CourseOf(shapes, dtype, keys)) == "");
}

TEST_CASE("large factor matrices and the roots of matrices above size 128 are those of the CPU") {
  for (const int32_t dtype : {SHAMPOO_F32, SHAMPOO_F64}) Check({{257, 140}, {600}, {3, 130, 2}}, dtype);
  for (const char* method : {"newton", "higher_order"}) Check({{200, 129}}, SHAMPOO_F32, {{"root_method", method}});
  Check({{300, 150}}, SHAMPOO_F32, {{"root_async", "1"}, {"precondition_frequency", "2"}});
  Check({{300, 150}}, SHAMPOO_F32, {{"factor_dtype", "bf16"}, {"inverse_dtype", "bf16"}, {"epsilon", "1e3"}});
}

TEST_CASE("roots that need several chunks and blocks that need several batched products are computed as on the CPU" *
          doctest::test_suite("long")) {
  // A chunk has at most 16384 roots (kMaxRootsAtOnce), and a batched product has at most 65535 matrices.
  Check({{3 * 17000, 2}}, SHAMPOO_F32, {{"max_preconditioner_dim", "3"}, {"precondition_frequency", "2"}});
  Check({{2 * 66000, 2}}, SHAMPOO_F32, {{"max_preconditioner_dim", "2"}, {"precondition_frequency", "2"}});
}

TEST_SUITE("long") {
  TEST_CASE("roots of sizes 512 to 2048 are those of the CPU") {
    const Keys once = "precondition_frequency=2";
    Check({{768, 512}, {1024, 1030}, {2048, 16}}, SHAMPOO_F32, once);
    Check({{520, 140}}, SHAMPOO_F32, {{"precondition_frequency", "2"}, {"root_method", "newton"}});
    Check({{1000, 520}}, SHAMPOO_F64, once);
    Check({{1024, 512}}, SHAMPOO_F32, {{"precondition_frequency", "2"}, {"root_async", "1"}});
  }

  TEST_CASE("roots of size 256 that are computed in several chunks are those of the CPU") {
    Check({{256 * 600, 4}}, SHAMPOO_F64, {{"max_preconditioner_dim", "256"}, {"precondition_frequency", "2"}});
  }

  TEST_CASE("blocks in several batches take the same steps as on the CPU") {
    // A batch holds up to 2^27 elements of factor matrices. These blocks have 1.5 times as many such elements.
    Check({{2048 * 24, 2048}}, SHAMPOO_F32,
          {{"max_preconditioner_dim", "2048"}, {"start_preconditioning_step", "9"}, {"precondition_frequency", "9"}});
  }
}

}  // namespace
}  // namespace shampoo_test
