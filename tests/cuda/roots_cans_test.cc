// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Compares the inverse roots that method cans computes on the fake CUDA with those of method eigen in float64 on the
// CPU. Prints the errors as the table that docs/roots.md contains.
#include <cstdio>

#include "core/roots/inverse_root.h"
#include "tests/cuda/roots_on_device.h"

namespace shampoo::cuda_test {
namespace {

// Returns a matrix whose smallest eigenvalue is 0. With kind 0, the other eigenvalues are between 1e-5 and 1. With kind
// 1, one eigenvalue is 1 and all others are 0. With kind 2, the other eigenvalues are between 2/3 and 1.
Matrix<float> WithSmallestZero(int64_t n, int kind, std::mt19937_64* random) {
  const double condition = kind == 2 ? 1.5 : 1e5;
  return RandomMatrix<float>(n, condition, random, kind == 1 ? n - 1 : 1);
}

double LargestRowSum(int64_t n, const Matrix<float>& a) {
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += std::fabs(static_cast<double>(a[static_cast<size_t>(i * n + j)]));
    largest = std::max(largest, sum);
  }
  return largest;
}

// Returns max |x - exact| / max |exact|, where `exact` is the root of matrix `a` that method eigen computes in float64.
double ErrorOf(const Question& question, int64_t n, const Matrix<float>& a, const Matrix<float>& x) {
  Question exactly = question;
  exactly.method = RootMethod::kEigen;
  exactly.root_dtype = Dtype::kF64;
  exactly.epsilon = 0;
  // Epsilon is added to the diagonal before the call, because method eigen would first subtract a negative smallest
  // eigenvalue from all eigenvalues.
  Matrix<double> wide(a.begin(), a.end());
  for (int64_t i = 0; i < n; ++i) wide[static_cast<size_t>(i * n + i)] += question.epsilon;
  Matrix<double> exact(a.size());
  RootResult result;
  Check(InverseRoot(ForCpu(exactly), question.root, 1, n, wide.data(), exact.data(), &result));
  double distance = 0;
  double largest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    distance = std::max(distance, std::fabs(static_cast<double>(x[i]) - exact[i]));
    largest = std::max(largest, std::fabs(exact[i]));
  }
  return distance / largest;
}

struct Row {
  int by_cans = 0;  // the number of matrices for which method cans computed the root
  int matrices = 0;
  double error = 0;  // the largest ErrorOf() of these roots
};

// Computes the inverse roots of several matrices. For each matrix, epsilon plus the smallest eigenvalue is about
// `fraction` times LargestRowSum() of the matrix.
Row Measure(int64_t root, double fraction) {
  std::mt19937_64 random(31);
  Row row;
  for (const int64_t n : {2, 20, 40, 100}) {
    for (const int kind : {0, 1, 2}) {
      Question question{.method = RootMethod::kCans, .root = root, .may_be_diagonal = false};
      const Matrix<float> a = WithSmallestZero(n, kind, &random);
      // Rounding to float32 moves the smallest eigenvalue by less than 1e-7 times LargestRowSum(). With the factor
      // 1.03, epsilon plus this eigenvalue is still at least fraction * LargestRowSum() if `fraction` is 1e-5 or more.
      question.epsilon = 1.03 * fraction * LargestRowSum(n, a);
      const Answer<float> answer = Solve<float>(question, n, {a});
      ++row.matrices;
      if (answer.status[0].failure != RootFailure::kNone) {
        CHECK(answer.status[0].failure == RootFailure::kNotConverged);
        continue;
      }
      CHECK(answer.status[0].kind == RootKind::kCans);
      CHECK(answer.status[0].iterations == (root == 2 ? 10 : 20));
      ++row.by_cans;
      row.error = std::max(row.error, ErrorOf(question, n, a, answer.matrices[0]));
    }
  }
  return row;
}

TEST_CASE("method cans on the device computes roots within 1e-4 of the exact roots or reports no convergence") {
  std::printf(
      "| smallest eigenvalue + e | r = 2: by cans | largest error | r = 4: by cans | largest error |\n"
      "|---|---|---|---|---|\n");
  for (const double fraction : {1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8}) {
    std::printf("| %.0e |", fraction);
    for (const int64_t root : {2, 4}) {
      CAPTURE(fraction);
      CAPTURE(root);
      const Row row = Measure(root, fraction);
      CHECK(row.error <= 1e-4);
      if (fraction >= 1e-5) CHECK(row.by_cans == row.matrices);
      if (fraction <= 1e-8) CHECK(row.by_cans == 0);
      std::printf(row.by_cans > 0 ? " %d of %d | %.1e |" : " %d of %d | |", row.by_cans, row.matrices, row.error);
    }
    std::printf("\n");
  }
}

TEST_CASE("method eigen computes a root for which method cans has no iteration") {
  std::mt19937_64 random(32);
  Question question{.root = 6};
  const Matrix<float> a = RandomMatrix<float>(10, 100, &random);
  const Answer<float> eigen = Solve<float>(question, 10, {a});
  question.method = RootMethod::kCans;
  CHECK(Solve<float>(question, 10, {a}).matrices[0] == eigen.matrices[0]);
}

TEST_CASE("method cans computes the root of a diagonal matrix from its diagonal") {
  Question question{.method = RootMethod::kCans, .root = 2};
  const Matrix<float> a = Diagonal<float>({1, 4, 1e-20, 16});
  const Answer<float> answer = Solve<float>(question, 4, {a, Diagonal<float>({4, 4, 4, 4})});
  CHECK(answer.status[0].kind == RootKind::kDiagonal);
  CHECK(answer.status[0].iterations == 0);
  CHECK(answer.matrices[0][5] == 0.5F);
  CHECK(answer.matrices[1][5] == 0.5F);
  question.may_be_diagonal = false;
  CHECK(Solve<float>(question, 4, {Diagonal<float>({4, 4, 4, 4})}).status[0].kind == RootKind::kCans);
}

}  // namespace
}  // namespace shampoo::cuda_test
