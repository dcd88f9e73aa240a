// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Tests the roots and statuses that RootSolver returns on the fake of CUDA: for diagonal matrices, for failures, for
// rejected steps, and for large batches.
#include <cstring>

#include "core/backend/cuda/plugin/roots_chunk.h"
#include "tests/cuda/roots_on_device.h"

namespace shampoo::cuda_test {
namespace {

TEST_CASE("the roots of a diagonal matrix are computed element by element") {
  Question question{.root = 2, .epsilon = 1e-3};
  const std::vector<double> positive = {4, 0.25, 1e-6};
  // If epsilon makes all elements positive, the root is computed from the elements plus epsilon. Otherwise the smallest
  // element is first subtracted from all elements.
  const std::vector<double> slightly_negative = {4, -5e-4, 1};
  const std::vector<double> negative = {4, -1, 1};
  const Answer<float> answer = Solve<float>(
      question, 3, {Diagonal<float>(positive), Diagonal<float>(slightly_negative), Diagonal<float>(negative)});
  for (const RootStatus& status : answer.status) {
    CHECK(status.failure == RootFailure::kNone);
    CHECK(status.kind == RootKind::kDiagonal);
    CHECK(status.diagonal_input == 1);
  }
  const auto root = [](double element) { return doctest::Approx(1 / std::sqrt(element)); };
  CHECK(answer.matrices[0][8] == root(1e-6 + 1e-3));
  CHECK(answer.matrices[1][4] == root(5e-4));
  CHECK(answer.matrices[1][8] == root(1 + 1e-3));
  CHECK(answer.matrices[2][4] == root(1e-3));
  CHECK(answer.matrices[2][8] == root(2 + 1e-3));
  CHECK(answer.matrices[2][1] == 0.0F);

  // If a factor matrix was not diagonal in an earlier step, method eigen computes its root from an eigendecomposition.
  // A negative smallest eigenvalue is then subtracted even if epsilon would make it positive.
  question.may_be_diagonal = false;
  const Answer<float> decomposed = Solve<float>(question, 3, {Diagonal<float>(slightly_negative)});
  CHECK(decomposed.status[0].kind == RootKind::kEigen);
  CHECK(decomposed.status[0].diagonal_input == 1);
  CHECK(decomposed.matrices[0][8] == root(1 + 5e-4 + 1e-3));

  const Answer<float> scalar = Solve<float>(question, 1, {{4.0F}, {-1.0F}, {static_cast<float>(kNan)}});
  CHECK(scalar.status[0].kind == RootKind::kScalar);
  CHECK(scalar.matrices[0][0] == root(4 + 1e-3));
  CHECK(scalar.matrices[1][0] == root(1e-3));
  CHECK(scalar.status[2].failure == RootFailure::kNanInput);
}

TEST_CASE("the root of a matrix does not depend on the other matrices of its batch") {
  std::mt19937_64 random(6);
  for (const RootMethod method : kMethods) {
    for (const int64_t n : {6, 50}) {
      CAPTURE(static_cast<int>(method));
      CAPTURE(n);
      Question question{.method = method, .root_dtype = Dtype::kF64};
      std::vector<Matrix<float>> matrices;
      // These matrices need different numbers of iterations.
      for (const double condition : {1e5, 1.0, 10.0, 1e3}) {
        matrices.push_back(RandomMatrix<float>(n, condition, &random));
      }
      std::vector<Matrix<float>> mixed = matrices;
      mixed.push_back(matrices[0]);
      mixed.back()[1] = mixed.back()[static_cast<size_t>(n)] = static_cast<float>(kNan);
      mixed.push_back(matrices[0]);
      mixed.back()[0] = static_cast<float>(kInfinity);
      mixed.push_back(Diagonal<float>(std::vector<double>(static_cast<size_t>(n), 2)));
      const Answer<float> together = Solve(question, n, mixed);
      for (size_t i = 0; i < matrices.size(); ++i) {
        const Answer<float> alone = Solve<float>(question, n, {matrices[i]});
        CHECK(together.status[i].failure == RootFailure::kNone);
        CHECK(together.status[i].iterations == alone.status[0].iterations);
        CHECK(together.matrices[i] == alone.matrices[0]);
      }
      CHECK(together.status[4].failure == RootFailure::kNanInput);
      CHECK(together.status[5].failure == RootFailure::kInfInput);
      for (const size_t i : {size_t{4}, size_t{5}}) {
        CHECK(std::memcmp(together.matrices[i].data(), mixed[i].data(), mixed[i].size() * sizeof(float)) == 0);
        CHECK(together.status[i].iterations == 0);
      }
      CHECK(together.status[6].failure == RootFailure::kNone);
      CHECK(together.status[6].diagonal_input == 1);
      CHECK(together.matrices[6][0] == doctest::Approx(std::pow(2, -0.25)));
    }
  }
}

TEST_CASE("a rejected step leaves roots and statuses unchanged") {
  std::mt19937_64 random(7);
  for (const RootMethod method : kMethods) {
    Question question{.method = method, .divisor = kNan, .active = false};
    const Matrix<float> matrix = RandomMatrix<float>(8, 10, &random);
    const Answer<float> answer = Solve<float>(question, 8, {matrix});
    CHECK(answer.matrices[0] == matrix);
    CHECK(answer.status[0].iterations == -7);
  }
}

TEST_CASE("the status of a failed root reports the reason") {
  std::mt19937_64 random(8);
  Question question;
  const auto failure = [&question](const Matrix<float>& matrix) {
    const auto n = static_cast<int64_t>(std::sqrt(static_cast<double>(matrix.size())));
    const Answer<float> answer = Solve<float>(question, n, {matrix});
    if (answer.status[0].failure != RootFailure::kNone) CHECK(answer.matrices[0] == matrix);
    return answer.status[0].failure;
  };
  const Matrix<float> good = RandomMatrix<float>(12, 10, &random);
  CHECK(failure(good) == RootFailure::kNone);
  SUBCASE("an element of the root is too large") {
    for (const RootMethod method : kMethods) {
      question.method = method;
      question.limit = 0.5;
      CHECK(failure(good) == RootFailure::kOutOfRange);
    }
    question.method = RootMethod::kEigen;
    question.limit = 900;  // the root of the second element is about 1e-12^(-1/4) = 1000, because epsilon is 1e-12
    CHECK(failure(Diagonal<float>({1, 1e-20})) == RootFailure::kOutOfRange);
  }
  SUBCASE("a singular matrix without epsilon") {
    question.epsilon = 0;
    CHECK(failure(Diagonal<float>({1, 0})) == RootFailure::kSingular);
    question.may_be_diagonal = false;
    CHECK(failure(Diagonal<float>({1, 0})) == RootFailure::kSingular);
  }
  SUBCASE("a negative definite matrix") {
    Matrix<float> negative = good;
    for (float& element : negative) element = -element;
    for (const RootMethod method : {RootMethod::kNewton, RootMethod::kHigherOrder}) {
      question.method = method;
      CHECK(failure(negative) == RootFailure::kNotConverged);
    }
  }
  SUBCASE("too few iterations are allowed") {
    for (const RootMethod method : {RootMethod::kNewton, RootMethod::kHigherOrder}) {
      question.method = method;
      question.max_iterations = 2;
      const Answer<float> answer = Solve<float>(question, 12, {good});
      CHECK(answer.status[0].failure == RootFailure::kNotConverged);
      CHECK(answer.status[0].converged == 0);
      CHECK(answer.status[0].iterations == 2);
    }
  }
}

TEST_CASE("root_method=newton ends long before the maximum number of iterations if it does not converge") {
  Question question{.method = RootMethod::kNewton, .root = 1, .epsilon = 0, .max_iterations = 1000000};
  const Answer<float> answer = Solve<float>(question, 2, {Diagonal<float>({1, 0})});
  CHECK(answer.status[0].failure == RootFailure::kNotConverged);
  CHECK(answer.status[0].converged == 0);
  CHECK(fake_cuda_count(FAKE_CUDA_PRODUCTS) < 3000);
}

// Matrix products in one iteration of Newton's method for an inverse square root.
constexpr int64_t kProductsPerIteration = 3;

TEST_CASE("an iterative method makes at most 7 iterations more than the matrices of the batch need") {
  std::mt19937_64 random(21);
  Question question{.method = RootMethod::kNewton, .root = 2};
  const Matrix<float> easy = RandomMatrix<float>(20, 2, &random);
  const Matrix<float> hard = RandomMatrix<float>(20, 1e4, &random);
  const Answer<float> alone = Solve<float>(question, 20, {easy});
  const Answer<float> both = Solve<float>(question, 20, {easy, hard, easy});
  REQUIRE(alone.status[0].iterations <= 8);
  REQUIRE(both.status[1].iterations > 8);
  REQUIRE(both.status[1].iterations <= 24);
  // The host polls the device after every 8 iterations. Therefore the method may make up to 7 iterations more than the
  // matrices need. Four more products check the result.
  CHECK(alone.products <= kProductsPerIteration * 8 + 4);
  CHECK(both.products <= kProductsPerIteration * (both.status[1].iterations + 7) + 4);
  // A matrix needs as many iterations in a batch as alone, and the roots are bit-identical.
  for (const size_t i : {0, 2}) {
    CHECK(both.matrices[i] == alone.matrices[0]);
    CHECK(both.status[i].iterations == alone.status[0].iterations);
  }
  // The method ends at the maximum number of iterations, even if a matrix needs more.
  question.max_iterations = 5;
  CHECK(Solve<float>(question, 20, {hard}).status[0].iterations == 5);
  // If the device has rejected the step, the method ends after the first 8 iterations.
  question.max_iterations = 100;
  question.active = false;
  question.divisor = kNan;
  CHECK(Solve<float>(question, 20, {hard}).products <= kProductsPerIteration * 8 + 4);
}

TEST_CASE(
    "while the stream is captured, an iterative method does not wait and makes the maximum number of iterations") {
  std::mt19937_64 random(22);
  Question question{.method = RootMethod::kNewton, .root = 2, .max_iterations = 20};
  const Matrix<float> matrix = RandomMatrix<float>(12, 3, &random);
  const Answer<float> expected = Solve<float>(question, 12, {matrix});
  question.captured = true;
  const Answer<float> answer = Solve<float>(question, 12, {matrix});
  CHECK(answer.matrices[0] == expected.matrices[0]);
  CHECK(answer.status[0].iterations == expected.status[0].iterations);
  CHECK(answer.products > expected.products);
}

// Iterates on one eigenvalue y, beginning with the smallest possible y (see MaxUsefulIterations in roots_coupled.cc).
// Uses long double, which can represent smaller numbers than double.
TEST_CASE("the number of iterations that MaxUsefulIterations returns is enough for all eigenvalues") {
  for (int root = 1; root <= 16; ++root) {
    for (int order = 2; order <= 8; ++order) {
      int64_t needed = 1;  // counts the first iteration, which may divide y by up to 2^root
      for (long double y = std::ldexp(1.0L, -1074 - 31 - root); 1 - y > 1e-16L; ++needed) {
        long double factor = 0;
        long double term = 1;  // b_i (1 - y)^i, where b_i is SeriesCoefficient(i, root)
        for (int i = 0; i < order; ++i) {
          factor += term;
          term *= (1 - y) * static_cast<long double>(1 + i * root) / static_cast<long double>((i + 1) * root);
        }
        y *= std::pow(factor, static_cast<long double>(root));
      }
      CAPTURE(root);
      CAPTURE(order);
      CHECK(needed <= MaxUsefulIterations(root, order));
    }
  }
}

TEST_CASE("wrong results of an eigensolver are detected") {
  std::mt19937_64 random(9);
  for (const int64_t n : {12, 40}) {
    const std::vector<Matrix<float>> matrices = {
        RandomMatrix<float>(n, 10, &random), RandomMatrix<float>(n, 10, &random), RandomMatrix<float>(n, 10, &random)};
    for (const int how :
         {FAKE_CUDA_EIGEN_INFO, FAKE_CUDA_EIGEN_NAN, FAKE_CUDA_EIGEN_WRONG_VECTORS, FAKE_CUDA_EIGEN_WRONG_VALUES}) {
      CAPTURE(how);
      fake_cuda_fail_eigen(1, 1, how, 3);  // spoils the result for the second matrix in the first solver run
      const Answer<float> answer = Solve<float>(Question{}, n, matrices);
      const bool sets_info = how == FAKE_CUDA_EIGEN_INFO;
      CHECK(answer.status[0].failure == RootFailure::kNone);
      CHECK(answer.status[1].failure == (sets_info ? RootFailure::kSolver : RootFailure::kWrongResult));
      CHECK(answer.status[1].solver_info == (sets_info ? 3 : 0));
      CHECK(answer.matrices[1] == matrices[1]);
      CHECK(answer.status[2].failure == RootFailure::kNone);
    }
  }
}

TEST_CASE("the number of kernels and library calls does not depend on the number of matrices in a batch") {
  std::mt19937_64 random(10);
  for (const RootMethod method : kMethods) {
    Question question{.method = method};
    int64_t calls[3][2] = {};
    for (const size_t large : {size_t{0}, size_t{1}}) {
      Solve(question, 4, std::vector<Matrix<float>>(large != 0 ? 1000 : 10, RandomMatrix<float>(4, 10, &random)));
      calls[0][large] = fake_cuda_count(FAKE_CUDA_LAUNCHES);
      calls[1][large] = fake_cuda_count(FAKE_CUDA_PRODUCTS);
      calls[2][large] = fake_cuda_count(FAKE_CUDA_EIGENPROBLEMS);
    }
    for (const auto& of_kind : calls) CHECK(of_kind[0] == of_kind[1]);
    CHECK(calls[2][0] == (method == RootMethod::kEigen ? 1 : 0));
  }
}

TEST_CASE("a few large eigenproblems take one call each but many or small eigenproblems share one call") {
  std::mt19937_64 random(12);
  const auto calls = [&](int64_t n, int64_t count) {
    Solve(Question{}, n, std::vector<Matrix<float>>(static_cast<size_t>(count), RandomMatrix<float>(n, n, &random)));
    return fake_cuda_count(FAKE_CUDA_EIGENPROBLEMS);
  };
  CHECK(calls(kSingleFrom, kSingleUpToCount) == kSingleUpToCount);
  CHECK(calls(kSingleFrom, kSingleUpToCount + 1) == 1);
  CHECK(calls(kSingleFrom - 1, kSingleUpToCount) == 1);
}

TEST_CASE("a batch beyond the limits of cuSOLVER is processed in chunks") {
  std::mt19937_64 random(11);
  const auto count = static_cast<size_t>(kMaxRootsAtOnce + 1);
  std::vector<Matrix<float>> matrices(count, RandomMatrix<float>(2, 10, &random));
  matrices.back() = RandomMatrix<float>(2, 5, &random);
  const Answer<float> answer = Solve(Question{}, 2, matrices);
  CHECK(fake_cuda_count(FAKE_CUDA_EIGENPROBLEMS) == 2);
  CHECK(answer.matrices[0] == answer.matrices[count - 2]);
  CHECK(answer.matrices.back() == Solve<float>(Question{}, 2, {matrices.back()}).matrices[0]);
}

TEST_CASE("a workspace for roots stays below the target size unless a single matrix needs more") {
  for (const RootMethod method : kMethods) {
    for (const Dtype dtype : {Dtype::kF32, Dtype::kF64}) {
      for (const int64_t n : {1, 2, 32, 33, 128, 1024, 8192, 20000}) {
        for (const int64_t count : {1, 7, 1000, 100000}) {
          const int64_t chunk = RootsPerChunk(method, n, count, dtype);
          CHECK(chunk >= 1);
          CHECK(chunk <= count);
          CHECK((chunk == 1 || RootWorkspaceBytes(method, n, count, dtype) <= kTargetRootWorkspace));
        }
      }
    }
  }
}

}  // namespace
}  // namespace shampoo::cuda_test
