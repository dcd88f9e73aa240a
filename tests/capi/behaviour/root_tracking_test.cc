// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Tests of track_root_residuals=true and root_rank_handling=pseudo_inverse through statistics, log messages and states.
#include "tests/capi/behaviour/host.h"
#include "tests/capi/behaviour/listener.h"
#include "tests/capture.h"

namespace shampoo_test {
namespace {

TEST_CASE(
    "residuals of root methods eigen, newton and higher_order are tracked, and not larger in float64 than in float32") {
  for (const char* method : {"eigen", "newton", "higher_order"}) {
    double error[2] = {};
    double residual[2] = {};
    for (const bool wide : {false, true}) {
      CAPTURE_ALL(method, wide);
      Host host("track_root_residuals=true use_merge_dims=false root_tolerance=1e-12 epsilon=1e-2" +
                    Keys{{"root_method", method}, {"root_dtype", wide ? "f64" : "f32"}},
                {Param("w", {16, 12}), Param("b", {9})}, 2);
      CHECK(host.Stat("root_error.worst") == -1);
      CHECK(host.Stat("root_error.max") == 0);
      Listener listener(2);
      std::mt19937_64 random = host.FillFrom(1);
      host.RandomStep(random);
      for (const std::string measure : {"root_error", "root_residual"}) {
        const auto stat = [&](const char* which) { return host.Stat((measure + which).c_str()); };
        CHECK(stat(".max") > 0);
        CHECK(stat(".max") < 0.05);
        CHECK(stat(".mean") <= stat(".max"));
        CHECK(stat(".median") <= stat(".p90"));
        CHECK(stat(".p90") <= stat(".max"));
        CHECK(stat(".worst") >= 0);
        CHECK(stat(".worst") <= 2);
      }
      error[wide] = host.Stat("root_error.max");
      residual[wide] = host.Stat("root_residual.max");
      listener.CheckOneMessage({"2 ", "root_error mean", "root_residual mean", "largest", "/factor."});
    }
    // Even with root_dtype=f64, residuals are not zero, because inverse roots are stored in float32.
    CHECK(error[1] <= error[0]);
    CAPTURE(method);
    CHECK(error[1] < 1e-6);
    CHECK(residual[1] <= residual[0]);
  }
}

TEST_CASE("nothing is tracked or logged without track_root_residuals") {
  Host host(Keys{}, {Param("w", {3, 2})});
  Listener listener(2);
  host.StepFrom(1);
  CHECK(host.Stat("root_residual.worst") == -1);
  CHECK(listener.Take().empty());
}

// Host uses the preset shampoo_2024, so inverse roots of matrices have the power -1/4. For G = u v^T, the factor matrix
// F_0 is |v|^2 u u^T. With pseudo_inverse, the inverse root X_0 of F_0 is |v|^(-1/2) |u|^(-5/2) u u^T.
TEST_CASE("with pseudo_inverse, an inverse root maps a vector to 0 if all gradients are orthogonal to the vector") {
  Host host(Keys("root_rank_handling=pseudo_inverse epsilon=0 use_merge_dims=false beta1=0 lr=1"),
            {Param("w", {2, 3})});
  const double u[2] = {0.6, 0.8};
  const double v[3] = {2, 1, 2};
  for (size_t i = 0; i < 2; ++i) {
    for (size_t j = 0; j < 3; ++j) host.tensors[0].g.Set(i * 3 + j, u[i] * v[j]);
  }
  host.Step();
  const Array left = host.Read("w/0/inverse.0");
  const Array right = host.Read("w/0/inverse.1");
  for (size_t i = 0; i < 2; ++i) {
    for (size_t j = 0; j < 2; ++j) {
      CHECK(left.Get(i * 2 + j) == doctest::Approx(u[i] * u[j] / std::sqrt(3.0)).epsilon(1e-5));
    }
  }
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      CHECK(right.Get(i * 3 + j) == doctest::Approx(v[i] * v[j] / 9 / std::sqrt(3.0)).epsilon(1e-5));
    }
  }
  // X_0 G X_1 = u v^T / 3, so the only nonzero singular value of the direction is 1.
  for (size_t i = 0; i < 6; ++i) {
    CHECK(host.tensors[0].w.Get(i) == doctest::Approx(-u[i / 3] * v[i % 3] / 3).epsilon(1e-5));
  }
}

TEST_CASE("pseudo_inverse treats eigenvalues up to the larger of the relative and the absolute tolerance as 0") {
  const auto root = [](const char* rtol, const char* atol) {
    const ConfigPtr config = MakeConfig("root_rank_handling=pseudo_inverse epsilon=0" +
                                        Keys{{"root_rank_rtol", rtol}, {"root_rank_atol", atol}});
    std::vector<double> a = {100, 0, 0, 0, 4, 0, 0, 0, 0.01};
    a[1] = a[3] = 1e-9;  // so that the matrix is not diagonal
    std::vector<double> x(9);
    RequireOk(shampoo_matrix_inverse_root(config.get(), 3, SHAMPOO_F64, a.data(), x.data(), 2, 1, nullptr));
    return x;
  };
  const auto kept = [&](const char* rtol, const char* atol) {
    const std::vector<double> x = root(rtol, atol);
    int count = 0;
    for (const size_t i : {0, 4, 8}) count += std::fabs(x[i]) > 1e-6;
    return count;
  };
  CHECK(kept("auto", "0") == 3);
  CHECK(kept("1e-3", "0") == 2);
  CHECK(kept("0.04", "0") == 1);  // an eigenvalue equal to the tolerance counts as 0
  CHECK(kept("0", "0.005") == 3);
  CHECK(kept("0", "0.02") == 2);
  CHECK(kept("1e-3", "5") == 1);
  CHECK(kept("0", "1000") == 0);
  CHECK(root("0", "0.02")[0] == doctest::Approx(0.1));
}

}  // namespace
}  // namespace shampoo_test
