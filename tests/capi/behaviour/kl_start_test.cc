// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Tests of kl_init=auto with method=kl_shampoo, and with method=soap and factor_correction=kl: the first values of the
// eigenvalues, the moving averages of the eigenvalues, and the lower bound of the eigenvalues, which kl_cap determines.
#include <array>
#include <cmath>

#include "tests/capi/behaviour/basis_host.h"
#include "tests/capture.h"

namespace shampoo_test {
namespace {

const std::vector<Keys> kKlMethods = {kKlSoap, kKlShampoo};

BasisVector EigenvaluesOf(const Host& host, size_t k) {
  BasisVector eigenvalues = host.Read("w/0/kl_scale." + std::to_string(k)).Values();
  for (double& value : eigenvalues) value = 1 / (value * value);
  return eigenvalues;
}

double MeanSquare(const BasisVector& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum / static_cast<double>(values.size());
}

TEST_CASE(
    "with kl_init=auto, the first gradient of a block of order n sets all eigenvalues to the n-th root of its "
    "mean square, and is whitened with these eigenvalues") {
  std::mt19937_64 random(5);
  const BasisVector g[] = {RandomElements(24, &random), RandomElements(24, &random)};
  const std::vector<size_t> shape = {2, 3, 4};
  for (const Keys& method : kKlMethods) {
    CAPTURE(method);
    Host host(method + "shampoo_beta=0.75", {Param("w", {2, 3, 4}, SHAMPOO_F64)});
    DirectionOf(&host, g[0]);
    const double first = std::cbrt(MeanSquare(g[0]));
    std::vector<BasisVector> expected;
    for (size_t k = 0; k < 3; ++k) {
      CHECK(DistanceOf(EigenvaluesOf(host, k), BasisVector(shape[k], first)) < 1e-15);
      const double weight = 0.25 * static_cast<double>(shape[k]) / 24 / (first * first);
      expected.push_back(GramOf(g[0], shape, k, weight));
      CHECK(DistanceOf(host.Read("w/0/factor." + std::to_string(k)).Values(), expected[k]) < 1e-13);
    }
    // The second gradient is whitened with the first eigenvalues. These eigenvalues have no weight in the averages, so
    // the sum of the new eigenvalues of a dim is the trace of `gram` alone.
    DirectionOf(&host, g[1]);
    for (size_t k = 0; k < 3; ++k) {
      const double weight = static_cast<double>(shape[k]) / 24 / (first * first);
      const BasisVector gram = GramOf(g[1], shape, k, weight);
      const BasisVector factor = host.Read("w/0/factor." + std::to_string(k)).Values();
      CHECK(DistanceOf(factor, SumOf(0.75, expected[k], 0.25, gram)) < 1e-13);
      double trace = 0, sum = 0;
      for (size_t i = 0; i < shape[k]; ++i) trace += gram[i * shape[k] + i];
      for (const double eigenvalue : EigenvaluesOf(host, k)) sum += eigenvalue;
      CHECK(sum == doctest::Approx(trace).epsilon(1e-13));
    }
  }
}

// With diagonal gradients, the eigenbases are the coordinate axes, and both dims have the same eigenvalues.
TEST_CASE("averages of eigenvalues are bias-corrected, and with shampoo_beta=1 they are plain means") {
  const std::vector<std::array<double, 2>> gradients = {{2, 1}, {3, 1}, {1, 2}, {2, 2}, {4, 1}};
  for (const double beta : {0.75, 1.0}) {
    CAPTURE(beta);
    const Keys keys = {{"shampoo_beta", std::to_string(beta)}, {"beta1", "0"}, {"epsilon", "0"}, {"kl_cap", "1e6"}};
    Host host(kKlShampoo + keys, {Param("w", {2, 2}, SHAMPOO_F64)});
    const double first = std::sqrt(5.0 / 4);
    std::array<double, 2> value = {first, first}, sum = {}, weights = {};
    for (size_t t = 0; t < gradients.size(); ++t) {
      const std::array<double, 2>& g = gradients[t];
      const BasisVector direction = DirectionOf(&host, {g[0], 0, 0, g[1]});
      for (size_t i = 0; i < 2; ++i) {
        CHECK(direction[3 * i] == doctest::Approx(t > 0 ? g[i] / value[i] : 0).epsilon(1e-13));
        if (t == 0) continue;
        // The library divides the squared gradient by the eigenvalues of the other dim. The new term of the average is
        // the mean of row i of the result. This row has two elements, and one of them is 0.
        const double term = g[i] * g[i] / value[i] / 2;
        sum[i] = beta * sum[i] + term;
        weights[i] = beta * weights[i] + 1;
        value[i] = sum[i] / weights[i];
      }
      for (size_t k = 0; k < 2; ++k) CHECK(DistanceOf(EigenvaluesOf(host, k), {value[0], value[1]}) < 1e-13);
    }
  }
}

TEST_CASE("with kl_init=auto and epsilon=0, the scale of the gradients does not change directions") {
  std::mt19937_64 random(7);
  std::vector<BasisVector> gradients;
  for (int t = 0; t < 14; ++t) {
    gradients.push_back(RandomElements(42, &random));
    // Row 0 of each gradient is 0, so one eigenvalue of the first dim is 0. kl_cap limits the inverse root of this
    // eigenvalue.
    for (size_t i = 0; i < 6; ++i) gradients.back()[i] = 0;
  }
  for (const Keys& method : kKlMethods) {
    for (const Keys& keys : Combinations("kl_init=auto|0.1 epsilon=0 precondition_frequency=5")) {
      CAPTURE_ALL(method, keys);
      std::vector<BasisVector> directions[3];
      const double scales[] = {1, std::ldexp(1, 30), std::ldexp(1, -30)};
      for (size_t s = 0; s < 3; ++s) {
        Host host(method + keys, {Param("w", {7, 6}, SHAMPOO_F64)});
        for (const BasisVector& gradient : gradients) {
          directions[s].push_back(DirectionOf(&host, Scaled(gradient, scales[s])));
        }
      }
      double difference = 0;
      for (size_t t = 1; t < gradients.size(); ++t) {
        for (size_t s = 1; s < 3; ++s) {
          const double distance = DistanceOf(directions[s][t], directions[0][t]);
          difference = std::max(difference, distance / LargestOf(directions[0][t]));
        }
      }
      CAPTURE(difference);
      CHECK((keys.Value("kl_init") == "auto" ? difference < 1e-9 : difference > 0.01));
    }
  }
}

// The gradient that is not zero is diagonal, and the first basis is the identity, so the numbers can be computed by
// hand.
TEST_CASE("after gradients of zeros, the first gradient that is not zero sets the eigenvalues") {
  for (const Keys& method : kKlMethods) {
    for (const double scale : {1.0, 1e-5, 1e5}) {
      CAPTURE_ALL(method, scale);
      const Keys keys = "shampoo_beta=0.75 beta1=0 epsilon=0";
      Host host(method + keys, {Param("w", {2, 2}, SHAMPOO_F64)});
      for (int t = 0; t < 4; ++t) {
        CHECK(LargestOf(DirectionOf(&host, BasisVector(4))) == 0);
        for (size_t k = 0; k < 2; ++k) CHECK(DistanceOf(EigenvaluesOf(host, k), {0.1, 0.1}) < 1e-16);
      }
      const BasisVector direction = DirectionOf(&host, {3 * scale, 0, 0, 1 * scale});
      const double first = std::sqrt(10.0 / 4) * scale;
      if (method == kKlShampoo) CHECK(DistanceOf(direction, {3 * scale / first, 0, 0, scale / first}) < 1e-13);
      // Step 1 is not counted as a term of the averages. Steps 2 to 4, whose gradients are zeros, are counted as three
      // terms, but do not change the eigenvalues. Step 5 sets the averages to `first`, and then adds its own term with
      // the weight of a fourth term.
      const double weight = 0.25 / (1 - std::pow(0.75, 4));
      for (size_t k = 0; k < 2; ++k) {
        const BasisVector eigenvalues = EigenvaluesOf(host, k);
        for (size_t i = 0; i < 2; ++i) {
          const double term = (i == 0 ? 9 : 1) * scale * scale / first / 2;
          CHECK(eigenvalues[i] == doctest::Approx((1 - weight) * first + weight * term).epsilon(1e-13));
        }
      }
    }
  }
}

TEST_CASE("gradients of zeros change no eigenvalue after a gradient that is not zero") {
  std::mt19937_64 random(11);
  for (const Keys& method : kKlMethods) {
    CAPTURE(method);
    Host host(method + "beta1=0 precondition_frequency=10000", {Param("w", {2, 3, 4}, SHAMPOO_F64)});
    for (int t = 0; t < 5; ++t) DirectionOf(&host, RandomElements(24, &random));
    std::vector<BasisVector> before;
    for (size_t k = 0; k < 3; ++k) before.push_back(EigenvaluesOf(host, k));
    for (int t = 0; t < 3000; ++t) DirectionOf(&host, BasisVector(24));
    for (size_t k = 0; k < 3; ++k) CHECK(EigenvaluesOf(host, k) == before[k]);
    const BasisVector direction = DirectionOf(&host, RandomElements(24, &random));
    CHECK(std::isfinite(LargestOf(direction)));
    if (method == kKlShampoo) CHECK(LargestOf(direction) < 100);
    bool changes = false;
    for (size_t k = 0; k < 3; ++k) changes = changes || EigenvaluesOf(host, k) != before[k];
    CHECK(changes);
  }
}

TEST_CASE("gradients whose squares are subnormal or 0 leave the eigenvalues at 0.1") {
  for (const Keys& method : kKlMethods) {
    Host host(method + "beta1=0", {Param("w", {2, 2}, SHAMPOO_F32)});
    for (const double element : {1e-21, 1e-40, 1.0}) {
      const BasisVector direction = DirectionOf(&host, BasisVector(4, element));
      CHECK(std::isfinite(LargestOf(direction)));
      for (size_t k = 0; k < 2; ++k) {
        for (const double value : EigenvaluesOf(host, k)) {
          if (element < 1) CHECK(value == doctest::Approx(0.1).epsilon(1e-6));
          CHECK(std::isfinite(value));
        }
      }
      // The mean square of this gradient is 1, so all eigenvalues are 1, and the direction equals the gradient.
      if (element == 1 && method == kKlShampoo) CHECK(DistanceOf(direction, BasisVector(4, 1)) < 1e-6);
    }
  }
}

TEST_CASE("with kl_cap=auto, the lower bound of the eigenvalues is proportional to the mean eigenvalue of their dim") {
  Host host(kKlShampoo, {Param("w", {2, 2}, SHAMPOO_F64)});
  for (int t = 0; t < 2; ++t) DirectionOf(&host, {1e-6, 0, 0, 0});
  // If m is the mean eigenvalue, the eigenvalues without the bound are 2 m and 0. For a dim of length 2, kl_cap=auto
  // limits the inverse square root of an eigenvalue to 10 / sqrt(m). This limit raises the second eigenvalue to m /
  // 10^2.
  for (size_t k = 0; k < 2; ++k) {
    const BasisVector eigenvalues = EigenvaluesOf(host, k);
    CHECK(eigenvalues[1] / eigenvalues[0] == doctest::Approx(1.0 / 200).epsilon(1e-12));
  }
}

}  // namespace
}  // namespace shampoo_test
