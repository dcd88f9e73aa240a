// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Tests of methods soap and kl_shampoo: properties that follow from the formulas of these methods, and examples that
// were computed by hand.
#include <algorithm>

#include "tests/capi/behaviour/basis_host.h"
#include "tests/capture.h"

namespace shampoo_test {
namespace {

TEST_CASE("if factor matrices have not changed, a refresh changes no direction, for all values of basis_sort") {
  std::mt19937_64 random(11);
  std::vector<BasisVector> gradients;
  for (int i = 0; i < 12; ++i) gradients.push_back(RandomElements(30, &random));
  // With this key, the steps that follow CopyStates() do not update the factor matrices.
  const Keys fixed = "factor_update_frequency=100";
  for (const Keys& method : kBasisMethods) {
    for (const Keys& basis : Combinations("basis_method=eigen|qr basis_sort=before|after|ascending|none")) {
      CAPTURE_ALL(method, basis);
      const std::vector<shampoo_param_desc> params = {Param("w", {6, 5}, SHAMPOO_F64)};
      Host before(method + "precondition_frequency=1", params);
      for (size_t i = 0; i < 6; ++i) DirectionOf(&before, gradients[i]);
      const Keys keys = method + fixed + basis;
      Host refreshed(keys + "precondition_frequency=1", params);
      Host kept(keys + "precondition_frequency=100", params);
      CopyStates(before, &refreshed);
      CopyStates(before, &kept);
      double difference = 0;
      for (size_t i = 6; i < gradients.size(); ++i) {
        const BasisVector expected = DirectionOf(&kept, gradients[i]);
        const BasisVector direction = DirectionOf(&refreshed, gradients[i]);
        difference = std::max(difference, DistanceOf(direction, expected) / LargestOf(expected));
      }
      CHECK(difference < 1e-11);
      CHECK(refreshed.Read("w/0/factor.0") == before.Read("w/0/factor.0"));
      CHECK(kept.Read("w/0/basis.0") == before.Read("w/0/basis.0"));
      // With these keys, refreshes reverse or rotate the columns of the basis, or change the signs of columns.
      if (basis.Value("basis_sort") == "ascending" || basis.Value("basis_method") == "qr") {
        CHECK(!(refreshed.Read("w/0/basis.0") == before.Read("w/0/basis.0")));
      }
    }
  }
}

TEST_CASE(
    "with soap and kl_shampoo, a parameter without factor matrices takes the steps of adam after its first gradient") {
  for (const int32_t dtype : {SHAMPOO_F32, SHAMPOO_F64}) {
    for (const Keys& method : {kSoap + "relative_epsilon=0", kKlSoap, kKlShampoo}) {
      for (const Keys& common : Combinations("beta1=0.9 beta2=0.97 epsilon=1e-6 lr=0.01 weight_decay=0.1 "
                                             "use_bias_correction=true|false")) {
        CAPTURE_ALL(dtype, method, common);
        const std::vector<shampoo_param_desc> params = {Param("vector", {37}, dtype), Param("matrix", {7, 5}, dtype)};
        Host host(method + common + "skip_dim_size=4", params);
        // For adam, each parameter has a separate optimizer, because adam counts the steps of the group instead of the
        // gradients of the parameter.
        Host vector_by_adam("method=adam" + common, {params[0]});
        Host matrix_by_adam("method=adam" + common, {params[1]});
        Host* const by_adam[] = {&vector_by_adam, &matrix_by_adam};
        std::mt19937_64 random = host.FillFrom(3);
        for (size_t p = 0; p < 2; ++p) by_adam[p]->tensors[0].w = host.tensors[p].w;
        int gradients[2] = {};
        for (int t = 0; t < 9; ++t) {
          host.FillGradients(random);
          host.tensors[0].has_grad = t != 4;
          host.tensors[1].has_grad = t >= 2 && t != 6;
          host.Step();
          for (size_t p = 0; p < 2; ++p) {
            if (host.tensors[p].has_grad && ++gradients[p] > 1) {
              by_adam[p]->tensors[0].g = host.tensors[p].g;
              by_adam[p]->Step();
            }
            CHECK(host.tensors[p].w == by_adam[p]->tensors[0].w);
          }
        }
        CHECK(gradients[0] == 8);
        CHECK(gradients[1] == 6);
      }
    }
  }
}

// Computes the directions of Adam by the formulas of arXiv 1412.6980.
struct AdamReference {
  double beta1, beta2, epsilon;
  int64_t updates = 0;
  BasisVector m = {}, v = {};

  BasisVector Update(const BasisVector& gradient) {
    m.resize(gradient.size());
    v.resize(gradient.size());
    ++updates;
    BasisVector direction;
    for (size_t i = 0; i < gradient.size(); ++i) {
      m[i] = beta1 * m[i] + (1 - beta1) * gradient[i];
      v[i] = beta2 * v[i] + (1 - beta2) * gradient[i] * gradient[i];
      const auto t = static_cast<double>(updates);
      const double divisor = std::sqrt(v[i] / (1 - std::pow(beta2, t))) + epsilon;
      direction.push_back(divisor == 0 ? 0 : m[i] / (1 - std::pow(beta1, t)) / divisor);
    }
    return direction;
  }
};

// Returns the diagonals of successive gradients. The largest element is the first one in gradients 1 to 7, and the
// last one in later gradients. Therefore the order of the eigenvalues changes, and refreshes reorder the columns of the
// bases.
std::vector<BasisVector> CrossingDiagonals() {
  std::vector<BasisVector> diagonals;
  for (int i = 0; i < 7; ++i) diagonals.push_back({2, 1, 0.5});
  for (int i = 0; i < 25; ++i) diagonals.push_back({0.1, 0.7 + 0.01 * i, 3});
  return diagonals;
}

TEST_CASE(
    "with diagonal gradients, soap takes the steps of Adam, even after the order of the eigenvalues has changed") {
  for (const Keys& keys : Combinations("epsilon=1e-8 relative_epsilon=0 basis_method=eigen|qr "
                                       "basis_transport=rotate|permute precondition_frequency=1|3|10")) {
    const bool is_eigen = keys.Value("basis_method") == "eigen";
    if (is_eigen && keys.Value("basis_transport") == "permute") continue;  // permute requires basis_method=qr
    CAPTURE(keys);
    Host host(kSoap + keys, {Param("w", {3, 3}, SHAMPOO_F64)});
    AdamReference adam{0.95, 0.95, 1e-8};
    int64_t gradient = 0;
    double difference = 0;
    for (const BasisVector& diagonal : CrossingDiagonals()) {
      const BasisVector direction = DirectionOf(&host, DiagonalMatrix(diagonal));
      const BasisVector expected = ++gradient == 1 ? BasisVector(3) : adam.Update(diagonal);
      difference = std::max(difference, DistanceOf(direction, DiagonalMatrix(expected)));
    }
    // With basis_method=qr, some elements of the rotated gradient are rounding errors instead of 0. The step divides
    // these elements by about epsilon, which is 1e-8.
    CHECK(difference < (is_eigen ? 1e-13 : 1e-7));
    // Refreshes have sorted the columns of the basis again: the first column now has its nonzero element in the last
    // row.
    CHECK(std::fabs(host.Read("w/0/basis.0").Get(6)) == doctest::Approx(1));
  }
}

TEST_CASE(
    "with first_step=use, soap uses the first gradient for a step of Adam in the eigenbases that this gradient "
    "determines") {
  Host host(kSoap + "first_step=use relative_epsilon=0 precondition_frequency=3", {Param("w", {3, 3}, SHAMPOO_F64)});
  AdamReference adam{0.95, 0.95, 1e-12};
  for (const BasisVector& diagonal : CrossingDiagonals()) {
    const BasisVector direction = DirectionOf(&host, DiagonalMatrix(diagonal));
    CHECK(DistanceOf(direction, DiagonalMatrix(adam.Update(diagonal))) < 1e-13);
  }
}

TEST_CASE("if the eigenbases of both dims do not change, soap takes the steps of Adam in these bases") {
  // Each gradient is U diag(d) V^T, where U and V are rotations and d is `diagonal`.
  const double a = 0.4, b = 1.1;
  const BasisVector u = {std::cos(a), -std::sin(a), std::sin(a), std::cos(a)};
  const BasisVector v = {std::cos(b), -std::sin(b), std::sin(b), std::cos(b)};
  const auto rotated = [&](const BasisVector& diagonal) {
    BasisVector g(4);
    for (size_t i = 0; i < 4; ++i) {
      for (size_t k = 0; k < 2; ++k) g[i] += u[i / 2 * 2 + k] * diagonal[k] * v[i % 2 * 2 + k];
    }
    return g;
  };
  for (const Keys& keys :
       Combinations("epsilon=1e-4 relative_epsilon=0 precondition_frequency=2 basis_method=eigen|qr")) {
    CAPTURE(keys);
    Host host(kSoap + keys, {Param("w", {2, 2}, SHAMPOO_F64)});
    AdamReference adam{0.95, 0.95, 1e-4};
    for (int i = 0; i < 30; ++i) {
      const BasisVector diagonal = i < 7 ? BasisVector{2, 1} : BasisVector{-0.1 * (i % 3), 3};
      const BasisVector direction = DirectionOf(&host, rotated(diagonal));
      const BasisVector expected = i == 0 ? BasisVector(2) : adam.Update(diagonal);
      // The tolerance is 10 u |G| / epsilon, where u is the unit roundoff of float64.
      CHECK(DistanceOf(direction, rotated(expected)) < 3e-11);
    }
  }
}

TEST_CASE("soap divides by sqrt(V) + epsilon + relative_epsilon times the largest sqrt(V) of the block") {
  Host host(kSoap + "relative_epsilon=0.25 beta1=0 epsilon=0.5", {Param("w", {2, 2}, SHAMPOO_F64)});
  DirectionOf(&host, DiagonalMatrix({3, 1}));
  // With bias correction, sqrt(V) is (8, 2), the diagonal of the gradient. The divisors are larger than sqrt(V) by
  // 0.5 + 0.25 * 8.
  const BasisVector direction = DirectionOf(&host, DiagonalMatrix({8, 2}));
  CHECK(DistanceOf(direction, DiagonalMatrix({8 / 10.5, 2 / 4.5})) < 1e-14);
}

TEST_CASE("with inverse_exponent=1, soap divides by V + epsilon, where V is the second moment") {
  Host host(kSoap + "inverse_exponent=1 relative_epsilon=0 beta1=0 epsilon=0.5", {Param("w", {2, 2}, SHAMPOO_F64)});
  DirectionOf(&host, DiagonalMatrix({3, 1}));
  const BasisVector direction = DirectionOf(&host, DiagonalMatrix({8, 2}));
  CHECK(DistanceOf(direction, DiagonalMatrix({8 / 64.5, 2 / 4.5})) < 1e-14);
}

TEST_CASE("with beta2=1, the second moment of soap is a sum, without bias correction") {
  Host host(kSoap + "relative_epsilon=0 beta1=0 beta2=1 epsilon=0.5", {Param("w", {2, 2}, SHAMPOO_F64)});
  DirectionOf(&host, DiagonalMatrix({3, 1}));
  CHECK(DistanceOf(DirectionOf(&host, DiagonalMatrix({4, 2})), DiagonalMatrix({4 / 4.5, 2 / 2.5})) < 1e-14);
  CHECK(DistanceOf(DirectionOf(&host, DiagonalMatrix({3, 0})), DiagonalMatrix({3 / 5.5, 0})) < 1e-14);
}

const Keys kExample = kKlShampoo + "beta1=0.9 beta2=0.9 shampoo_beta=0.9 epsilon=0 kl_init=0.1";

TEST_CASE("kl_shampoo gives the numbers of an example that is computed by hand") {
  Host host(kExample, {Param("w", {2, 2}, SHAMPOO_F64)});
  CHECK(DirectionOf(&host, DiagonalMatrix({3, 1})) == BasisVector(4));
  // F = (1 - shampoo_beta) * (length of the dim / number of elements) * G G^T = 0.1 * 2 / 4 * G G^T
  CHECK(DistanceOf(host.Read("w/0/factor.0").Values(), DiagonalMatrix({0.45, 0.05})) < 1e-15);
  CHECK(DistanceOf(host.Read("w/0/kl_scale.0").Values(), BasisVector(2, std::sqrt(10.0))) < 1e-14);
  CHECK(DistanceOf(DirectionOf(&host, DiagonalMatrix({1, 2})), DiagonalMatrix({1, 2})) < 1e-14);
  for (const char* const key : {"w/0/kl_scale.0", "w/0/kl_scale.1"}) {
    const BasisVector expected = {1 / std::sqrt(0.59), 1 / std::sqrt(2.09)};
    CHECK(DistanceOf(host.Read(key).Values(), expected) < 1e-14);
  }
  // The term that this step adds to factor.1 is multiplied by 10. Before this step, both elements of kl_scale.0 are
  // sqrt(10).
  CHECK(DistanceOf(host.Read("w/0/factor.1").Values(), DiagonalMatrix({0.9 * 0.45 + 0.5, 0.9 * 0.05 + 2})) < 1e-14);
  const BasisVector third = DirectionOf(&host, DiagonalMatrix({1, 2}));
  CHECK(DistanceOf(third, DiagonalMatrix({.3220338983, .1818181818})) < 1e-10);
}

TEST_CASE(
    "kl_shampoo divides each element of the rotated filtered gradient by epsilon + sqrt(a b), with the eigenvalue a of "
    "its row and the eigenvalue b of its column") {
  Host host(kExample + "epsilon=0.5", {Param("w", {2, 2}, SHAMPOO_F64)});
  DirectionOf(&host, DiagonalMatrix({3, 1}));
  // The filtered gradient has the diagonal (0.1, 0.2). Without epsilon, the divisors are 0.1.
  CHECK(DistanceOf(DirectionOf(&host, DiagonalMatrix({1, 2})), DiagonalMatrix({0.1 / 0.6, 0.2 / 0.6})) < 1e-14);
}

// Computes the directions of kl_shampoo for a square matrix with diagonal gradients. The factor matrices of both dims
// have the same eigenvalues, one for each element of the diagonal. `cap` is the value of kl_cap.
struct DiagonalKlReference {
  double cap;
  BasisVector m = {}, eigenvalues = {};

  BasisVector Update(const BasisVector& gradient) {
    m.resize(gradient.size());
    eigenvalues.resize(gradient.size(), 0.1);
    BasisVector direction;
    for (size_t i = 0; i < gradient.size(); ++i) {
      m[i] = 0.9 * m[i] + 0.1 * gradient[i];
      direction.push_back(m[i] / eigenvalues[i]);
      const double square = gradient[i] * gradient[i] / static_cast<double>(gradient.size()) / eigenvalues[i];
      eigenvalues[i] = std::max(0.9 * eigenvalues[i] + 0.1 * square, 1 / (cap * cap));
    }
    return direction;
  }
};

TEST_CASE(
    "with diagonal gradients, kl_shampoo reorders the eigenvalues whenever a refresh reorders the columns of the "
    "basis") {
  for (const Keys& keys : Combinations("basis_method=eigen|qr precondition_frequency=1|10 "
                                       "basis_sort=before|after|ascending")) {
    const bool is_eigen = keys.Value("basis_method") == "eigen";
    // Orthogonal iteration, which basis_method=qr selects, moves the first columns towards the eigenvectors of the
    // largest eigenvalues. Therefore every refresh amplifies rounding errors if columns are sorted by ascending
    // eigenvalue.
    if (!is_eigen && keys.Value("basis_sort") == "ascending") continue;
    CAPTURE(keys);
    Host host(kExample + keys, {Param("w", {2, 2}, SHAMPOO_F64)});
    DiagonalKlReference reference{10};
    std::vector<BasisVector> directions;  // element i is the direction of update i, which uses gradient i + 1
    for (int gradient = 1; gradient <= 40; ++gradient) {
      const BasisVector diagonal = gradient <= 10 ? BasisVector{2, 1} : BasisVector{0.1, 3};
      const BasisVector direction = DirectionOf(&host, DiagonalMatrix(diagonal));
      directions.push_back(DiagonalOf(direction, 2));
      const BasisVector expected = gradient == 1 ? BasisVector(2) : reference.Update(diagonal);
      CHECK(DistanceOf(direction, DiagonalMatrix(expected)) < (is_eigen ? 1e-13 : 1e-7));
    }
    // The order of the eigenvalues changes before update 20. A refresh in or before update 20 exchanges the columns.
    CHECK(DistanceOf(directions[21], {0.85, 1.13}) < 0.005);
    CHECK(DistanceOf(directions[39], {1.47, 1.37}) < 0.005);
  }
}

TEST_CASE("inverse roots of eigenvalues never exceed kl_cap even if a refresh rotates the columns of the basis") {
  for (const Keys& method : {kKlSoap, kKlShampoo}) {
    for (const Keys& keys :
         Combinations("shampoo_beta=0.5 kl_init=2 kl_cap=3 precondition_frequency=2 basis_method=eigen|qr")) {
      CAPTURE_ALL(method, keys);
      Host host(method + keys, {Param("w", {4, 3}, SHAMPOO_F64)});
      std::mt19937_64 random(2);
      int at_cap = 0;
      for (int i = 0; i < 40; ++i) {
        BasisVector gradient = RandomElements(12, &random);
        for (size_t j = 0; j < 12; ++j) gradient[j] *= j / 3 == static_cast<size_t>(i / 10) ? 1 : 1e-3;
        DirectionOf(&host, gradient);
        for (const char* const key : {"w/0/kl_scale.0", "w/0/kl_scale.1"}) {
          const BasisVector scales = host.Read(key).Values();
          CHECK(LargestOf(scales) <= 3 * (1 + 1e-15));
          at_cap += LargestOf(scales) > 2.999 ? 1 : 0;
        }
      }
      CHECK(at_cap > 10);
    }
  }
}

TEST_CASE("rotating a basis by 30 degrees changes a second moment of (4, 1) to (3.25, 1.75)") {
  const double c = std::sqrt(0.75), s = 0.5;
  // A matrix that has the eigenvalues 2 and 1 along the rotated axes.
  const BasisVector factor = {2 * c * c + s * s, c * s, c * s, 2 * s * s + c * c};
  for (const std::string basis_method : {"eigen", "qr"}) {
    for (const Keys& method : kBasisMethods) {
      CAPTURE_ALL(method, basis_method);
      const bool has_moment = method[0].second == "soap";
      const bool has_scales = method[1].first == "factor_correction" || !has_moment;
      // With beta2=1 and shampoo_beta=1, a gradient of 0 changes neither second moments nor eigenvalues.
      Host host(method + (has_scales ? Keys("kl_init=0.1") : Keys{}) +
                    "beta1=0.5 beta2=1 shampoo_beta=1 basis_iterations=16 precondition_frequency=60" +
                    Keys{{"basis_method", basis_method}},
                {Param("w", {2, 1}, SHAMPOO_F64)});
      host.WriteValues("w/0/factor.0", factor);
      const Host::Entry count = host.Find("w/0/gradient_count");
      host.WriteValues(count.info.key, {60});
      host.WriteValues("w/0/filtered_grad", {2, 4});
      if (has_moment) host.WriteValues("w/0/second_moment", {4, 1});
      if (has_scales) host.WriteValues("w/0/kl_scale.0", {0.5, 1});
      DirectionOf(&host, {0, 0});
      const double tolerance = basis_method == "eigen" ? 1e-14 : 1e-5;  // 16 iterations leave an error of 2^-16
      const BasisVector basis = host.Read("w/0/basis.0").Values();
      CHECK(std::fabs(basis[0]) == doctest::Approx(c).epsilon(tolerance));
      CHECK(std::fabs(basis[2]) == doctest::Approx(s).epsilon(tolerance));
      const BasisVector filtered = host.Read("w/0/filtered_grad").Values();
      CHECK(std::fabs(filtered[0]) == doctest::Approx(c + 2 * s).epsilon(tolerance));
      CHECK(std::fabs(filtered[1]) == doctest::Approx(2 * c - s).epsilon(tolerance));
      if (has_moment) CHECK(DistanceOf(host.Read("w/0/second_moment").Values(), {3.25, 1.75}) < 4 * tolerance);
      if (has_scales) {
        const BasisVector scales = host.Read("w/0/kl_scale.0").Values();
        CHECK(DistanceOf({1 / (scales[0] * scales[0]), 1 / (scales[1] * scales[1])}, {3.25, 1.75}) < 4 * tolerance);
      }
    }
  }
}

TEST_CASE("factor matrices of soap add up contractions of the gradients, with the weights that the keys specify") {
  std::mt19937_64 random(5);
  const BasisVector g[] = {RandomElements(24, &random), RandomElements(24, &random)};
  const struct {
    Keys keys;
    double decay, first, second;
  } cases[] = {{"shampoo_beta=0.75", 0.75, 0.25, 0.25},
               {"shampoo_beta=0.75 factor_start=first", 0.75, 1, 0.25},
               {"shampoo_beta=1", 1, 1, 1},
               {"shampoo_beta=0.75 drop_weighting=true", 0.75, 1, 1}};
  for (const auto& one : cases) {
    CAPTURE(one.keys.back().first);
    Host host(kSoap + one.keys, {Param("w", {2, 3, 4}, SHAMPOO_F64)});
    for (const BasisVector& gradient : g) DirectionOf(&host, gradient);
    for (size_t k = 0; k < 3; ++k) {
      const BasisVector expected =
          SumOf(one.decay, GramOf(g[0], {2, 3, 4}, k, one.first), 1, GramOf(g[1], {2, 3, 4}, k, one.second));
      CHECK(DistanceOf(host.Read("w/0/factor." + std::to_string(k)).Values(), expected) < 1e-13 * LargestOf(expected));
    }
  }
}

TEST_CASE(
    "with factor_correction=kl, gradients after the first one are whitened along all dims except the dim of the "
    "factor matrix") {
  std::mt19937_64 random(5);
  const BasisVector g[] = {RandomElements(24, &random), RandomElements(24, &random)};
  const std::vector<size_t> shape = {2, 3, 4};
  for (const Keys& method : {kKlSoap, kKlShampoo}) {
    CAPTURE(method);
    Host host(method + "shampoo_beta=0.75 kl_init=0.5", {Param("w", {2, 3, 4}, SHAMPOO_F64)});
    DirectionOf(&host, g[0]);
    std::vector<BasisVector> expected;
    for (size_t k = 0; k < 3; ++k) {
      expected.push_back(GramOf(g[0], shape, k, 0.25 * static_cast<double>(shape[k]) / 24));
      CHECK(DistanceOf(host.Read("w/0/factor." + std::to_string(k)).Values(), expected[k]) < 1e-14);
    }
    // Whitening divides by the square roots of eigenvalues. All eigenvalues are still kl_init, 0.5, so whitening
    // multiplies by sqrt(2) along each of the two other dims.
    const BasisVector eigenvalues = host.Read("w/0/kl_scale.0").Values();
    CHECK(DistanceOf(eigenvalues, {std::sqrt(2.0), std::sqrt(2.0)}) < 1e-15);
    DirectionOf(&host, g[1]);
    for (size_t k = 0; k < 3; ++k) {
      expected[k] = SumOf(0.75, expected[k], 4, GramOf(g[1], shape, k, 0.25 * static_cast<double>(shape[k]) / 24));
      CHECK(DistanceOf(host.Read("w/0/factor." + std::to_string(k)).Values(), expected[k]) < 1e-13);
    }
    // A step multiplies the eigenvalues by 0.75 and adds the diagonal of Q^T `gram` Q, where Q is the basis of the dim.
    // The test compares only the sum of the eigenvalues, because the trace of Q^T `gram` Q does not depend on Q.
    for (size_t k = 0; k < 3; ++k) {
      double trace = 0, sum = 0;
      const BasisVector gram = GramOf(g[1], shape, k, 4 * 0.25 * static_cast<double>(shape[k]) / 24);
      for (size_t i = 0; i < shape[k]; ++i) trace += gram[i * shape[k] + i];
      for (const double scale : host.Read("w/0/kl_scale." + std::to_string(k)).Values()) sum += 1 / (scale * scale);
      CHECK(sum == doctest::Approx(0.75 * 0.5 * static_cast<double>(shape[k]) + trace).epsilon(1e-13));
    }
  }
}

TEST_CASE("with factor_correction=kl, gradients of a block with one factor matrix are not whitened") {
  std::mt19937_64 random(5);
  const BasisVector g[] = {RandomElements(12, &random), RandomElements(12, &random)};
  for (const Keys& method : {kKlSoap, kKlShampoo}) {
    Host host(method + "shampoo_beta=0.75 precondition_dims=smaller", {Param("w", {4, 3}, SHAMPOO_F64)});
    for (const BasisVector& gradient : g) DirectionOf(&host, gradient);
    const BasisVector expected =
        SumOf(0.75, GramOf(g[0], {4, 3}, 1, 0.25 * 3 / 12), 1, GramOf(g[1], {4, 3}, 1, 0.25 * 3 / 12));
    CHECK(DistanceOf(host.Read("w/0/factor.1").Values(), expected) < 1e-14);
  }
}

// Checks that the columns of the basis of dim k are eigenvectors of factor matrix k. Their eigenvalues must be in
// ascending order if `ascending` is true, otherwise in descending order.
void CheckEigenvectors(const Host& host, size_t k, bool ascending) {
  const BasisVector factor = host.Read("w/0/factor." + std::to_string(k)).Values();
  const BasisVector q = host.Read("w/0/basis." + std::to_string(k)).Values();
  const auto n = static_cast<size_t>(std::lround(std::sqrt(static_cast<double>(q.size()))));
  double last = 0;
  for (size_t j = 0; j < n; ++j) {
    double eigenvalue = 0;
    BasisVector fq(n);
    for (size_t i = 0; i < n; ++i) {
      for (size_t l = 0; l < n; ++l) fq[i] += factor[i * n + l] * q[l * n + j];
      eigenvalue += fq[i] * q[i * n + j];
    }
    for (size_t i = 0; i < n; ++i) CHECK(std::fabs(fq[i] - eigenvalue * q[i * n + j]) < 1e-13 * LargestOf(factor));
    if (j > 0) CHECK((ascending ? eigenvalue >= last : eigenvalue <= last));
    last = eigenvalue;
  }
}

TEST_CASE("after the first gradient and each refresh, columns of bases are eigenvectors in the order of basis_sort") {
  for (const Keys& method : kBasisMethods) {
    for (const std::string sort : {"before", "after", "ascending", "none"}) {
      CAPTURE_ALL(method, sort);
      Host host(method + Keys{{"precondition_frequency", "3"}, {"basis_sort", sort}},
                {Param("w", {3, 4}, SHAMPOO_F64)});
      const auto check = [&] {
        for (const size_t k : {0, 1}) CheckEigenvectors(host, k, sort == "ascending");
      };
      CHECK(BasisChanges(&host, 10, check) == std::vector<int>{1, 4, 7, 10});
    }
  }
}

// Returns |D - U U^T D V V^T| / |D|, the share of D outside the spaces that the columns of U and V span. U and V are
// n x r matrices with orthonormal columns.
double ShareOutside(const BasisVector& d, const BasisVector& u, const BasisVector& v, size_t n, size_t r) {
  BasisVector inner(r * r);  // U^T D V
  for (size_t i = 0; i < n; ++i) {
    for (size_t a = 0; a < r; ++a) {
      for (size_t j = 0; j < n; ++j) {
        for (size_t b = 0; b < r; ++b) inner[a * r + b] += u[i * r + a] * d[i * n + j] * v[j * r + b];
      }
    }
  }
  double outside = 0, all = 0;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      double inside = 0;
      for (size_t a = 0; a < r; ++a) {
        for (size_t b = 0; b < r; ++b) inside += u[i * r + a] * inner[a * r + b] * v[j * r + b];
      }
      const double rest = d[i * n + j] - inside;
      outside += rest * rest;
      all += d[i * n + j] * d[i * n + j];
    }
  }
  return std::sqrt(outside / all);
}

BasisVector OrthonormalColumns(size_t n, size_t r, std::mt19937_64* random) {
  BasisVector q = RandomElements(n * r, random);
  for (size_t j = 0; j < r; ++j) {
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t k = 0; k < j; ++k) {
        double product = 0;
        for (size_t i = 0; i < n; ++i) product += q[i * r + k] * q[i * r + j];
        for (size_t i = 0; i < n; ++i) q[i * r + j] -= product * q[i * r + k];
      }
    }
    double square = 0;
    for (size_t i = 0; i < n; ++i) square += q[i * r + j] * q[i * r + j];
    for (size_t i = 0; i < n; ++i) q[i * r + j] /= std::sqrt(square);
  }
  return q;
}

TEST_CASE("directions for low-rank float32 gradients stay in the row space and column space of the gradients") {
  constexpr size_t n = 64;
  for (const Keys& method : {kSoap, kKlShampoo}) {
    for (const size_t r : {1, 4}) {
      for (const double scale : {1.0, 1e-3}) {
        CAPTURE_ALL(method, r, scale);
        std::mt19937_64 random(6);
        const BasisVector u = OrthonormalColumns(n, r, &random);
        const BasisVector v = OrthonormalColumns(n, r, &random);
        Host host(method, {Param("w", {n, n}, SHAMPOO_F32)});
        BasisVector direction;
        for (int t = 0; t < 30; ++t) {
          BasisVector inner = RandomElements(r * r, &random);
          // The mean of the gradients is not 0. Otherwise the filtered gradient could consist of rounding errors.
          for (size_t k = 0; k < r; ++k) inner[k * r + k] += 3;
          BasisVector gradient(n * n);
          for (size_t i = 0; i < n * n; ++i) {
            for (size_t k = 0; k < r * r; ++k) {
              gradient[i] += static_cast<double>(n) * scale * u[i / n * r + k / r] * inner[k] * v[i % n * r + k % r];
            }
          }
          direction = DirectionOf(&host, gradient);
          if (t > 0) CHECK(ShareOutside(direction, u, v, n, r) < 0.05);
        }
      }
    }
  }
}

}  // namespace
}  // namespace shampoo_test
