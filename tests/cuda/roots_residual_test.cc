// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Compares the residuals (key track_root_residuals) that the device (the fake of CUDA) measures for its roots with
// those that the CPU measures for the same roots.
#include <cstring>

#include "core/roots/inverse_root.h"
#include "core/roots/residual.h"
#include "core/rules/root_spec.h"
#include "tests/cuda/roots_on_device.h"

namespace shampoo::cuda_test {
namespace {

// Measures, on the CPU, the residuals of a root that the device has computed.
template <typename Real>
RootResiduals OnCpu(const Question& question, int64_t n, const Matrix<Real>& matrix, const Matrix<Real>& x,
                    const RootStatus& status) {
  const DeviceSettings settings = question.ForDevice();
  const RootMethod method = MethodOfRoot(settings, question.root, 1, n);
  const RootSpec spec = MakeRootSpec(settings, question.root, 1, n, DtypeOfMethod(method, question.root_dtype));
  RootOutcome outcome;
  outcome.kind = status.kind;
  outcome.epsilon = status.epsilon;
  outcome.shift = status.shift;
  std::vector<double> elements(static_cast<size_t>(RootWorkspace<double>::Elements(RootMethod::kEigen, n)));
  std::vector<int32_t> ints(static_cast<size_t>(RootWorkspace<double>::Ints(n)));
  return MeasureRoot(spec, outcome, SymmetricView<Real>{n, matrix.data(), question.divisor},
                     SymmetricView<Real>{n, x.data()}, RootWorkspace<double>{elements.data(), ints.data()});
}

bool AreClose(double a, double b, double rounding) {
  return a == b || std::fabs(a - b) <= rounding + 1e-6 * std::fabs(b);
}

// Checks that the device measures the same residuals as the CPU, and that measuring does not change the roots.
template <typename Real>
void CompareResiduals(Question question, int64_t n, const std::vector<Matrix<Real>>& matrices) {
  const Answer<Real> plain = Solve(question, n, matrices);
  question.tracked = true;
  const Answer<Real> answer = Solve(question, n, matrices);
  for (size_t i = 0; i < matrices.size(); ++i) {
    CAPTURE(i);
    const RootStatus& status = answer.status[i];
    CHECK(answer.matrices[i] == plain.matrices[i]);
    CHECK(plain.status[i].error == 0);
    CHECK(plain.status[i].residual == 0);
    if (status.failure != RootFailure::kNone) continue;
    Matrix<Real> expected(matrices[i].size());
    Matrix<Real> divided = matrices[i];
    for (Real& element : divided) element /= static_cast<Real>(question.divisor);
    RootResult result;
    Check(InverseRoot(ForCpu(question), question.root, 1, n, divided.data(), expected.data(), &result));
    if (result.outcome.rungs_used == 0) {
      // If the smallest eigenvalue is negative, the shift contains its magnitude. This eigenvalue may be a mere
      // rounding error, which differs between the device and the CPU. The bound is therefore absolute.
      const double unit = MachineEpsilon(question.root_dtype) * 100;
      CHECK(AreClose(status.shift, result.outcome.shift, unit));
      CHECK(AreClose(status.epsilon, result.outcome.epsilon, unit * question.epsilon));
    }
    const RootResiduals cpu = OnCpu(question, n, matrices[i], answer.matrices[i], status);
    CHECK(AreClose(status.error, cpu.error, 1e-12));
    CHECK(AreClose(status.residual, cpu.residual, 1e-9));
  }
}

TEST_CASE("residuals of roots equal those of the CPU for every method, dtype, size and exponent" *
          doctest::test_suite("long")) {
  std::mt19937_64 random(5);
  for (const RootMethod method : kMethods) {
    for (const Dtype root_dtype : {Dtype::kF32, Dtype::kF64}) {
      for (const int64_t n : {1, 2, 7, 33, 100}) {
        for (const int64_t root : {2, 3, 4}) {
          if (n > 33 && root != 4) continue;
          CAPTURE(static_cast<int>(method));
          CAPTURE(static_cast<int>(root_dtype));
          CAPTURE(n);
          CAPTURE(root);
          Question question{.method = method, .root_dtype = root_dtype, .root = root, .epsilon = 1e-4, .divisor = 0.75};
          std::vector<Matrix<float>> narrow;
          std::vector<Matrix<double>> wide;
          for (const double condition : {1.0, 30.0, 1000.0}) {
            narrow.push_back(RandomMatrix<float>(n, condition, &random));
            wide.push_back(RandomMatrix<double>(n, condition, &random, 0, 20));
          }
          narrow.push_back(Diagonal<float>(std::vector<double>(static_cast<size_t>(n), 3)));
          CompareResiduals(question, n, narrow);
          CompareResiduals(question, n, wide);
        }
      }
    }
  }
}

TEST_CASE("residuals with root_relative_epsilon use the epsilon of each matrix and are 0 for a matrix of zeros") {
  std::mt19937_64 random(6);
  for (const RootMethod method : kMethods) {
    CAPTURE(static_cast<int>(method));
    Question question{.method = method, .epsilon = 0, .relative_epsilon = 1e-3};
    const std::vector<Matrix<float>> matrices = {RandomMatrix<float>(9, 1e5, &random, 0, 1e-8),
                                                 RandomMatrix<float>(9, 1e5, &random, 0, 1e6), Matrix<float>(81),
                                                 Diagonal<float>({1, 2, 3, 4, 5, 6, 7, 8, 9})};
    CompareResiduals(question, 9, matrices);
    question.tracked = true;
    const Answer<float> answer = Solve(question, 9, matrices);
    CHECK(answer.status[0].epsilon < 1e-10);
    CHECK(answer.status[1].epsilon > 1);
    CHECK(answer.status[0].error > 0);
    CHECK(answer.status[2].failure == RootFailure::kNone);
    CHECK(answer.status[2].error == 0);
    CHECK(answer.status[2].residual == 0);
  }
}

TEST_CASE("residuals of matrices with a negative eigenvalue and of pseudo-inverses equal those of the CPU") {
  std::mt19937_64 random(7);
  Question question{.epsilon = 1e-3};
  // Both matrices have a negative smallest eigenvalue.
  Matrix<double> indefinite = RandomMatrix<double>(8, 100, &random);
  for (size_t i = 0; i < 8; ++i) indefinite[i * 9] -= 0.05;
  Matrix<double> diagonal = Diagonal<double>({3, -1, 2, 5, 1, 1, 4, 2});
  for (const Dtype root_dtype : {Dtype::kF32, Dtype::kF64}) {
    question.root_dtype = root_dtype;
    CompareResiduals<double>(question, 8, {indefinite, diagonal});
    question.tracked = true;
    const Answer<double> answer = Solve<double>(question, 8, {indefinite, diagonal});
    CHECK(answer.status[0].shift > 0.01);
    CHECK(answer.status[1].shift == doctest::Approx(1.001));
    question.tracked = false;
  }
  question.pseudo_inverse = true;
  question.epsilon = 0;
  question.rank_rtol = 1e-5;
  CompareResiduals<double>(question, 8, {RandomMatrix<double>(8, 100, &random, 3)});
  CompareResiduals<float>(question, 8, {RandomMatrix<float>(8, 100, &random, 3)});
}

TEST_CASE("residuals equal those of the CPU for positive and negative values of exponent_multiplier, and for 0") {
  std::mt19937_64 random(8);
  Question question{.epsilon = 1e-2};
  for (const double multiplier : {1.5, -0.5, 0.0}) {
    CAPTURE(multiplier);
    question.multiplier = multiplier;
    CompareResiduals<float>(question, 6, {RandomMatrix<float>(6, 50, &random)});
  }
}

TEST_CASE("no residuals are recorded for a root that fails or in a rejected step") {
  std::mt19937_64 random(9);
  for (const RootMethod method : kMethods) {
    Question question{.method = method, .limit = 0.5, .tracked = true};
    const Answer<float> answer = Solve<float>(question, 5, {RandomMatrix<float>(5, 10, &random)});
    CHECK(answer.status[0].failure == RootFailure::kOutOfRange);
    CHECK(answer.status[0].error == 0);
    CHECK(answer.status[0].residual == 0);
    question.limit = kInfinity;
    question.active = false;
    question.max_iterations = kIterationsPerPoll;  // so that the solver never polls the device
    const Answer<float> rejected = Solve<float>(question, 5, {RandomMatrix<float>(5, 10, &random)});
    CHECK(rejected.status[0].iterations == -7);
    CHECK(rejected.status[0].error == 0);
  }
}

TEST_CASE("the error or the residual of a root is infinite if the eigensolver that measures it fails") {
  std::mt19937_64 random(10);
  Question question{.method = RootMethod::kNewton, .epsilon = 1e-2, .tracked = true};
  // Method newton calls no eigensolver. To measure the root, RootSolver decomposes two matrices in float64: first the
  // input matrix, for the error, and then the root, for the residual.
  for (const int64_t failing : {1, 2}) {
    fake_cuda_fail_eigen(failing, 0, FAKE_CUDA_EIGEN_INFO, 3);
    const Answer<float> answer = Solve<float>(question, 40, {RandomMatrix<float>(40, 10, &random)});
    CHECK(answer.status[0].failure == RootFailure::kNone);
    CHECK(std::isinf(answer.status[0].error) == (failing == 1));
    CHECK(std::isinf(answer.status[0].residual) == (failing == 2));
  }
}

}  // namespace
}  // namespace shampoo::cuda_test
