// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/capi/behaviour/host.h"
#include "tests/capi/behaviour/tensor_reference.h"
#include "tests/capture.h"

namespace shampoo_test {
namespace {

struct Root {
  shampoo_status status;
  Array x;
  shampoo_root_info info;
};

Root InverseRoot(const Keys& keys, Array a, int32_t root_num, int32_t root_den = 1) {
  const ConfigPtr config = MakeConfig(keys);
  Root root{SHAMPOO_OK, Array(a.dtype(), a.size()), SHAMPOO_ROOT_INFO_INIT};
  const auto n = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(a.size()))));
  root.info.iterations = 5;
  root.status =
      shampoo_matrix_inverse_root(config.get(), n, a.dtype(), a.data(), root.x.data(), root_num, root_den, &root.info);
  return root;
}

// Returns B B^T for a random n x n matrix B. The eigenvalues of B B^T range from nearly 0 to about 8 n.
Array RandomMatrix(int32_t dtype, size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  Array b(SHAMPOO_F64, n * n);
  b.Fill(random);
  std::vector<double> a(n * n, 0);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      for (size_t k = 0; k < n; ++k) a[i * n + j] += b.Get(i * n + k) * b.Get(j * n + k);
    }
  }
  return ArrayOf(dtype, a);
}

std::vector<double> Product(size_t n, const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> c(n * n, 0);
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < n; ++k) {
      for (size_t j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
    }
  }
  return c;
}

TEST_CASE("elements outside the range of the root dtype become neither infinities nor zeros") {
  for (const double off : {0.0, 1e10}) {
    const Root root = InverseRoot("root_dtype=f32 epsilon=0", ArrayOf(SHAMPOO_F64, {1e40, off, off, 4e40}), 2);
    CHECK(root.status == SHAMPOO_OK);
    CHECK(root.x.Get(0) == doctest::Approx(1e-20).epsilon(1e-6));
    CHECK(root.x.Get(3) == doctest::Approx(5e-21).epsilon(1e-6));
    CHECK(root.info.retried == 0);
    const Root small =
        InverseRoot("root_dtype=f32 epsilon=0", ArrayOf(SHAMPOO_F64, {1e-50, off * 1e-90, off * 1e-90, 1e-48}), 4);
    CHECK(small.status == SHAMPOO_OK);
    CHECK(small.x.Get(0) == doctest::Approx(3.16227766e12).epsilon(1e-6));
    CHECK(small.x.Get(3) == doctest::Approx(1e12).epsilon(1e-6));
  }
}

TEST_CASE("the inverse root of a 1 x 1 matrix is the inverse root of its element") {
  for (const int32_t dtype : {SHAMPOO_F32 + 0, SHAMPOO_F64 + 0}) {
    const Root root = InverseRoot("epsilon=1", ArrayOf(dtype, {15}), 4);
    CHECK(root.status == SHAMPOO_OK);
    CHECK(root.x.Get(0) == 0.5);
    CHECK(root.info.method == 0);
    CHECK(root.info.iterations == 0);
    CHECK(root.info.converged == 1);
    CHECK(root.info.retried == 0);
    CHECK(root.info.residual < 1e-6);
    CHECK(root.info.struct_size == sizeof root.info);
  }
}

TEST_CASE("the root of a diagonal matrix is taken element by element, and nothing above the diagonal is read") {
  const Root root = InverseRoot("epsilon=0", ArrayOf(SHAMPOO_F64, {16, 3, NAN, 0, 81, INFINITY, 0, 0, 1}), 4);
  CHECK(root.status == SHAMPOO_OK);
  const double expected[] = {0.5, 0, 0, 0, 1.0 / 3, 0, 0, 0, 1};
  for (size_t i = 0; i < 9; ++i) CHECK(root.x.Get(i) == doctest::Approx(expected[i]).epsilon(1e-15));
  CHECK(root.info.method == 1);
  CHECK(root.info.residual < 1e-14);
}

TEST_CASE("if X is the inverse p-th root of a dense matrix A then A X^p is the identity") {
  for (const int32_t dtype : {SHAMPOO_F32 + 0, SHAMPOO_F64 + 0}) {
    for (const size_t n : {2, 3, 17, 48}) {
      for (const int root_num : {1, 2, 3, 4, 6}) {
        CAPTURE_ALL(dtype, n, root_num);
        const Array a = RandomMatrix(dtype, n, n);
        const Root root = InverseRoot("epsilon=1", a, root_num);
        REQUIRE(root.status == SHAMPOO_OK);
        CHECK(root.info.method == 2);
        for (size_t i = 0; i < n; ++i) {
          for (size_t j = 0; j < i; ++j) CHECK(root.x.Get(i * n + j) == root.x.Get(j * n + i));
        }
        std::vector<double> product = a.Values();
        for (size_t i = 0; i < n; ++i) product[i * n + i] += 1;
        for (int k = 0; k < root_num; ++k) product = Product(n, product, root.x.Values());
        double largest = 0;
        for (size_t i = 0; i < n * n; ++i)
          largest = std::max(largest, std::fabs(product[i] - (i % (n + 1) == 0 ? 1 : 0)));
        // The residual is at most about the product of the condition number, the precision and root_num. The condition
        // number is far below 100 n^2.
        const double bound = (dtype == SHAMPOO_F32 ? 6e-8 : 1.2e-16) * 100 * static_cast<double>(n * n) * root_num;
        CHECK(largest < bound);
        CHECK(root.info.residual < bound);
        // In float32, the rounding of X causes almost all of the residual. The library and this test compute the
        // residual in float64 from the same rounded X, so the reported residual is close to `largest`.
        if (dtype == SHAMPOO_F32) CHECK(root.info.residual / largest == doctest::Approx(1).epsilon(1e-3));
      }
    }
  }
}

TEST_CASE("the inverse root is the power -exponent_multiplier * root_den / root_num") {
  const Array a = RandomMatrix(SHAMPOO_F64, 6, 1);
  struct Case {
    int32_t root_num, root_den;
    const char* multiplier;
    double exponent;
  };
  for (const Case& one :
       {Case{4, 1, "1", 0.25}, {4, 3, "1", 0.75}, {3, 2, "1.5", 1}, {1, 1, "0", 0}, {2, 1, "-1", -0.5}}) {
    CAPTURE(one.exponent);
    const Root root =
        InverseRoot({{"epsilon", "0.5"}, {"exponent_multiplier", one.multiplier}}, a, one.root_num, one.root_den);
    REQUIRE(root.status == SHAMPOO_OK);
    CHECK(DistanceOf(root.x.Values(), InversePower(6, a.Values(), 0.5, one.exponent)) < 1e-11);
    CHECK(root.info.residual < 1e-10);
  }
}

TEST_CASE("if the least eigenvalue is negative, its magnitude and epsilon are added to all eigenvalues") {
  // The eigenvalues of [1 2; 2 1] are -1 and 3. The shift makes them 0 and 4, and epsilon makes them 1 and 5.
  const Root root = InverseRoot("epsilon=1", ArrayOf(SHAMPOO_F64, {1, 2, 2, 1}), 2);
  REQUIRE(root.status == SHAMPOO_OK);
  const double low = 1, high = 1 / std::sqrt(5.0);
  CHECK(root.x.Get(0) == doctest::Approx((high + low) / 2).epsilon(1e-14));
  CHECK(root.x.Get(1) == doctest::Approx((high - low) / 2).epsilon(1e-14));
  // A diagonal matrix is shifted only if its root would otherwise not be finite.
  const Root diagonal = InverseRoot("epsilon=2", ArrayOf(SHAMPOO_F64, {-1, 0, 0, 7}), 2);
  CHECK(diagonal.x.Get(0) == 1);
  CHECK(diagonal.x.Get(3) == doctest::Approx(1.0 / 3).epsilon(1e-15));
  const Root raised = InverseRoot("epsilon=1", ArrayOf(SHAMPOO_F64, {-4, 0, 0, 4}), 2);
  CHECK(raised.x.Get(0) == 1);
  CHECK(raised.x.Get(3) == doctest::Approx(1.0 / 3).epsilon(1e-15));
}

TEST_CASE("the result may overwrite the matrix, the upper triangle is ignored, and info is optional") {
  const Array a = RandomMatrix(SHAMPOO_F64, 5, 4);
  const Root root = InverseRoot("epsilon=0.5", a, 4);
  Array in_place = a;
  for (size_t i = 0; i < 5; ++i) {
    for (size_t j = i + 1; j < 5; ++j) in_place.Set(i * 5 + j, NAN);
  }
  const ConfigPtr config = MakeConfig("epsilon=0.5");
  RequireOk(shampoo_matrix_inverse_root(config.get(), 5, SHAMPOO_F64, in_place.data(), in_place.data(), 4, 1, nullptr));
  CHECK(in_place == root.x);
}

}  // namespace
}  // namespace shampoo_test
