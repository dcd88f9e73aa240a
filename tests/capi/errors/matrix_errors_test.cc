// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <limits>

#include "errors_test_util.h"

namespace shampoo_test {
namespace {

TEST_CASE("shampoo_matrix_inverse_root rejects invalid arguments and leaves its outputs unchanged") {
  const ConfigPtr config = MakeConfig();
  const double a[4] = {4, 0, 0, 4};
  double x[4] = {7, 7, 7, 7};
  shampoo_root_info info = SHAMPOO_ROOT_INFO_INIT;
  info.method = -5;
  const auto root = [&](int64_t n, int32_t dtype, int32_t numerator, int32_t denominator) {
    return shampoo_matrix_inverse_root(config.get(), n, dtype, a, x, numerator, denominator, &info);
  };
  for (const int64_t n : {int64_t{0}, int64_t{-1}, int64_t{32751}, INT64_MAX}) {
    CHECK_INVALID(root(n, SHAMPOO_F64, 4, 1), "n is " + Text(n), "1 to 32750");
  }
  for (const int32_t dtype : {0, SHAMPOO_F16 + 0, SHAMPOO_BF16 + 0, SHAMPOO_I32 + 0, -1, 8}) {
    CHECK_INVALID(root(2, dtype, 4, 1), "dtype is " + Text(dtype), "SHAMPOO_F32 (1)", "SHAMPOO_F64");
  }
  for (const int32_t wrong : {0, -1, INT32_MIN}) {
    CHECK_INVALID(root(2, SHAMPOO_F64, wrong, 1), "root_num is " + Text(wrong), "at least 1");
    CHECK_INVALID(root(2, SHAMPOO_F64, 4, wrong), "root_den is " + Text(wrong), "at least 1");
  }
  const auto with = [&](const shampoo_config* c, const void* from, void* to) {
    return shampoo_matrix_inverse_root(c, 2, SHAMPOO_F64, from, to, 4, 1, &info);
  };
  CHECK_INVALID(with(nullptr, a, x), "config is NULL");
  CHECK_INVALID(with(config.get(), nullptr, x), "a is NULL");
  CHECK_INVALID(with(config.get(), a, nullptr), "x is NULL");
  for (const double element : x) CHECK(element == 7);
  CHECK(info.method == -5);
  CHECK(shampoo_matrix_inverse_root(config.get(), 2, SHAMPOO_F64, a, x, 2, 1, nullptr) == SHAMPOO_OK);
  CHECK(x[0] == doctest::Approx(0.5));
}

TEST_CASE("shampoo_matrix_orthogonalize rejects invalid arguments and reports infinite inputs and divergence") {
  const ConfigPtr config = MakeConfig("method=muon");
  const double a[6] = {4, 0, 0, 4, 1, 1};
  double x[6] = {7, 7, 7, 7, 7, 7};
  const auto orthogonalize = [&](int64_t rows, int64_t columns, int32_t dtype) {
    return shampoo_matrix_orthogonalize(config.get(), rows, columns, dtype, a, x);
  };
  for (const int64_t wrong : {int64_t{0}, int64_t{-1}, INT64_MIN}) {
    CHECK_INVALID(orthogonalize(wrong, 2, SHAMPOO_F64), "rows is " + Text(wrong), "at least 1");
    CHECK_INVALID(orthogonalize(2, wrong, SHAMPOO_F64), "columns is " + Text(wrong), "at least 1");
  }
  CHECK_INVALID(orthogonalize(32751, 32752, SHAMPOO_F64), "rows is 32751", "at most 32750");
  CHECK_INVALID(orthogonalize(INT64_MAX, 2, SHAMPOO_F64), "columns is 2", "2^31 - 1 elements");
  CHECK_INVALID(orthogonalize(2, 3, SHAMPOO_BF16), "dtype is 4", "SHAMPOO_F32 (1)");
  const auto with = [&](const shampoo_config* c, const void* from, void* to) {
    return shampoo_matrix_orthogonalize(c, 2, 3, SHAMPOO_F64, from, to);
  };
  CHECK_INVALID(with(nullptr, a, x), "config is NULL");
  CHECK_INVALID(with(config.get(), nullptr, x), "a is NULL");
  CHECK_INVALID(with(config.get(), a, nullptr), "x is NULL");
  const double infinite[6] = {1, 2, 3, 4, 5, INFINITY};
  CHECK_ERROR(with(config.get(), infinite, x), SHAMPOO_E_NUMERIC, {"matrix a (2 x 3)", "infinity", "expected finite"});
  const ConfigPtr diverging = MakeConfig("method=muon ns_coefficients=30,30,30 ns_steps=60");
  CHECK_ERROR(with(diverging.get(), a, x), SHAMPOO_E_NUMERIC, {"matrix a (2 x 3)", "diverged", "polar_express"});
  for (const double element : x) CHECK(element == 7);
  CHECK(orthogonalize(2, 3, SHAMPOO_F64) == SHAMPOO_OK);
  CHECK(x[0] != 7);
}

template <typename Real>
void CheckRootFails(const ConfigPtr& config, int32_t dtype, std::vector<Real> a, const char* why) {
  const auto n = static_cast<int64_t>(std::sqrt(static_cast<double>(a.size())));
  std::vector<Real> x(a.size(), Real{7});
  const std::vector<Real> before = x;
  shampoo_root_info info = SHAMPOO_ROOT_INFO_INIT;
  info.method = -5;
  info.residual = 9;
  const auto root = [&](Real* to) {
    return shampoo_matrix_inverse_root(config.get(), n, dtype, a.data(), to, 4, 1, &info);
  };
  CHECK_ERROR(root(x.data()), SHAMPOO_E_NUMERIC,
              {"matrix a (" + Text(n) + " x " + Text(n) + ")", why, "larger epsilon"});
  CHECK(x == before);
  const std::vector<Real> original = a;
  CHECK(root(a.data()) == SHAMPOO_E_NUMERIC);
  CHECK(std::memcmp(a.data(), original.data(), a.size() * sizeof(Real)) == 0);
  CHECK(info.method == -5);
  CHECK(info.residual == 9);
}

template <typename Real>
void CheckFailures(int32_t dtype) {
  const ConfigPtr config = MakeConfig();
  const Real nan = std::numeric_limits<Real>::quiet_NaN();
  const Real infinity = std::numeric_limits<Real>::infinity();
  for (const size_t at : {0, 3, 8}) {  // elements 0 and 8 are on the diagonal, and element 3 is below it
    std::vector<Real> a = {2, 1, 1, 1, 2, 1, 1, 1, 2};
    a[at] = nan;
    CheckRootFails<Real>(config, dtype, a, "NaN");
    a[at] = infinity;
    CheckRootFails<Real>(config, dtype, a, "infinity");
    a[at] = -infinity;
    CheckRootFails<Real>(config, dtype, a, "infinity");
  }
  CheckRootFails<Real>(config, dtype, {nan}, "NaN");
  const ConfigPtr no_epsilon = MakeConfig("epsilon=0");
  CheckRootFails<Real>(no_epsilon, dtype, {0}, "singular");
  CheckRootFails<Real>(no_epsilon, dtype, {1, 0, 0, 0}, "singular");
  // This matrix has a negative eigenvalue. The library adds a number to each eigenvalue so that the smallest is 0.
  CheckRootFails<Real>(no_epsilon, dtype, {1, 2, 2, -5}, "singular");
}

TEST_CASE("if an inverse root would not be finite, the call fails and leaves the output matrix and info unchanged") {
  CheckFailures<float>(SHAMPOO_F32);
  CheckFailures<double>(SHAMPOO_F64);
}

}  // namespace
}  // namespace shampoo_test
