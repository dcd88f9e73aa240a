// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Compares the inverse roots that the device (the fake of CUDA) computes for batches of matrices with those of the CPU.
#include "core/roots/inverse_root.h"
#include "tests/cuda/roots_on_device.h"

namespace shampoo::cuda_test {
namespace {

template <typename Real>
void CheckSymmetric(int64_t n, const Matrix<Real>& x) {
  bool symmetric = true;
  for (int64_t i = 0; i < n * n; ++i) {
    symmetric = symmetric && x[static_cast<size_t>(i)] == x[static_cast<size_t>(i % n * n + i / n)];
  }
  CHECK(symmetric);
}

// Returns max |x - y| / max |y|.
template <typename Real>
double Distance(const Matrix<Real>& x, const Matrix<Real>& y) {
  double largest = 0;
  double distance = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
    if (std::isnan(difference)) return difference;
    distance = std::max(distance, difference);
    largest = std::max(largest, std::fabs(static_cast<double>(y[i])));
  }
  return largest > 0 ? distance / largest : distance;
}

// Compares the roots that the device computes with those of the CPU. On the device, the solver divides the matrices by
// question.divisor. For the CPU, this function divides them.
template <typename Real>
void CompareWithCpu(const Question& question, int64_t n, const std::vector<Matrix<Real>>& matrices, double tolerance) {
  const Answer<Real> answer = Solve(question, n, matrices);
  for (size_t i = 0; i < matrices.size(); ++i) {
    CAPTURE(i);
    Matrix<Real> divided = matrices[i];
    for (Real& element : divided) element /= static_cast<Real>(question.divisor);
    Matrix<Real> expected(divided.size());
    RootResult result;
    const Status status = InverseRoot(ForCpu(question), question.root, 1, n, divided.data(), expected.data(), &result);
    Check(status);
    const RootStatus& actual = answer.status[i];
    // If the first attempt of the CPU failed, the device, which has no recovery ladder, must report the same failure.
    if (result.outcome.rungs_used > 0) {
      CHECK(actual.failure == result.outcome.first_failure);
      continue;
    }
    CHECK(actual.failure == RootFailure::kNone);
    CHECK(actual.kind == result.outcome.kind);
    CHECK(actual.diagonal_input == (result.outcome.diagonal_input ? 1 : 0));
    CHECK(actual.solver_info == 0);
    // In float32, rounding errors may increase or reduce the number of iterations by up to 2.
    CHECK(std::abs(actual.iterations - result.outcome.iterations) <= (question.root_dtype == Dtype::kF64 ? 0 : 2));
    if (question.root_dtype == Dtype::kF64) CHECK(actual.converged == result.outcome.converged);
    CHECK(Distance(answer.matrices[i], expected) <= tolerance);
    CheckSymmetric(n, answer.matrices[i]);
  }
}

template <typename Real>
void CompareRandom(RootMethod method, Dtype root_dtype, double condition) {
  std::mt19937_64 random(3);
  for (const int64_t n : {1, 2, 3, 7, 33, 64, 100}) {
    for (const int64_t root : {2, 4, 6}) {
      CAPTURE(n);
      CAPTURE(root);
      if (n > 33 && root > 2) continue;  // larger cases take too long
      Question question{.method = method, .root_dtype = root_dtype, .root = root, .divisor = root == 4 ? 0.5 : 1};
      std::vector<Matrix<Real>> matrices;
      for (const double own_condition : {1.0, std::sqrt(condition), condition}) {
        matrices.push_back(RandomMatrix<Real>(n, own_condition, &random, 0, root == 2 ? 1e-3 : 50));
      }
      // Relative to the largest eigenvalue, rounding errors are about one machine epsilon. Relative to the smallest
      // eigenvalue, which determines the largest elements of the root, they are `condition` times as large.
      const double unit = MachineEpsilon(root_dtype) * condition + MachineEpsilon(kDtype<Real>);
      // higher_order begins with a Newton step, which multiplies by ((p + 1) I - Y) / p. p is `root`, and Y is a matrix
      // of the iteration (core/roots/coupled.h). In the direction of the largest eigenvalue of Y, this difference is
      // almost 0, so it has few correct digits.
      CompareWithCpu<Real>(question, n, matrices, (method == RootMethod::kHigherOrder ? 100 : 10) * unit);
    }
  }
}

TEST_CASE("roots of random matrices equal those of the CPU") {
  for (const RootMethod method : kMethods) {
    CAPTURE(static_cast<int>(method));
    SUBCASE("in float32") { CompareRandom<float>(method, Dtype::kF32, 1e3); }
    SUBCASE("in float64") { CompareRandom<double>(method, Dtype::kF64, 1e6); }
    SUBCASE("in float64 for float32 matrices") { CompareRandom<float>(method, Dtype::kF64, 1e6); }
    SUBCASE("in float32 for float64 matrices") { CompareRandom<double>(method, Dtype::kF32, 1e3); }
  }
}

TEST_CASE("roots equal those of the CPU for several values of root_order, several exponents and several magnitudes") {
  std::mt19937_64 random(4);
  Question question{.root_dtype = Dtype::kF64};
  for (const int64_t order : {2, 3, 4, 7}) {
    question.method = RootMethod::kHigherOrder;
    question.order = order;
    CompareWithCpu<double>(question, 20, {RandomMatrix<double>(20, 1e4, &random)}, 1e-10);
  }
  question.method = RootMethod::kEigen;
  for (const double multiplier : {1.82, 0.5, 0.0, -1.0}) {
    question.multiplier = multiplier;
    CompareWithCpu<double>(question, 20, {RandomMatrix<double>(20, 1e4, &random)}, 1e-9);
  }
  question.multiplier = 1;
  for (const RootMethod method : kMethods) {
    question.method = method;
    for (const double magnitude : {1e-20, 1e20, 1e-290, 1e290}) {
      CAPTURE(magnitude);
      question.epsilon = magnitude > 1 ? 1e-12 : 1e-12 * magnitude;
      if (method == RootMethod::kHigherOrder && magnitude < 1)
        continue;  // higher_order adds at least 1e-16 to the diagonal
      CompareWithCpu<double>(question, 9, {RandomMatrix<double>(9, 1e3, &random, 0, magnitude)}, 1e-9);
    }
  }
}

TEST_CASE("if the error of an iteration stops decreasing, the iteration ends, and its root equals that of the CPU") {
  std::mt19937_64 random(12);
  Question question{.tolerance = 0};
  for (const RootMethod method : {RootMethod::kNewton, RootMethod::kHigherOrder}) {
    question.method = method;
    const Matrix<float> matrix = RandomMatrix<float>(30, 100, &random);
    CompareWithCpu<float>(question, 30, {matrix}, 1e-4);
    CHECK(Solve<float>(question, 30, {matrix}).status[0].converged == -1);
  }
}

TEST_CASE("pseudo-inverses equal those of the CPU for several rank tolerances") {
  std::mt19937_64 random(5);
  for (const int64_t n : {5, 40}) {
    Question question{.root_dtype = Dtype::kF64, .epsilon = 0, .pseudo_inverse = true};
    CompareWithCpu<double>(question, n, {RandomMatrix<double>(n, 10, &random, 2), RandomMatrix<double>(n, 10, &random)},
                           1e-11);
    question.rank_rtol = 0.3;
    CompareWithCpu<double>(question, n, {RandomMatrix<double>(n, 10, &random, 2)}, 1e-11);
    question.rank_atol = 0.5;
    CompareWithCpu<double>(
        question, n,
        {RandomMatrix<double>(n, 10, &random, 2), Diagonal<double>(std::vector<double>(static_cast<size_t>(n), 0.6))},
        1e-11);
  }
}

TEST_CASE("the root of a large matrix is computed in panels of rows, without most elements above the diagonal") {
  constexpr int64_t kSize = 515;  // above kLowerProductPanelsFrom (core/backend/cuda/plugin/gemm.h)
  Matrix<float> matrix(kSize * kSize);
  for (int64_t i = 0; i < kSize * kSize; ++i) {
    const auto distance = static_cast<double>(std::abs(i / kSize - i % kSize));
    matrix[static_cast<size_t>(i)] = static_cast<float>(std::pow(0.5, distance));
  }
  Question question{.root = 2};
  CompareWithCpu<float>(question, kSize, {matrix, matrix}, 1e-5);
  // Three products with vectors check the eigendecomposition, and four products compute the panels of the root.
  CHECK(fake_cuda_count(FAKE_CUDA_PRODUCTS) == 3 + 4);
}

}  // namespace
}  // namespace shampoo::cuda_test
