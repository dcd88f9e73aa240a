// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Computes inverse roots of recorded matrices on the device, which is the fake CUDA here, and compares them with the
// exact roots. Compares the numbers of iterations with those of the CPU and of the reference implementation.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/roots/inverse_root.h"
#include "tests/cuda/roots_on_device.h"
#include "tests/golden/safetensors.h"

namespace shampoo::cuda_test {
namespace {

struct Counts {
  int computed = 0;
  int left_to_the_ladder = 0;
};

Question QuestionOf(const nlohmann::json& settings) {
  const auto method = settings.at("method").get<std::string>();
  Question question{.root = settings.at("root_numerator"),
                    .multiplier = settings.at("exponent_multiplier"),
                    .epsilon = settings.at("epsilon"),
                    .may_be_diagonal = method == "diagonal" || method == "eigen"};
  if (method != "newton" && method != "higher_order") return question;
  question.method = method == "newton" ? RootMethod::kNewton : RootMethod::kHigherOrder;
  question.tolerance = settings.at("tolerance");
  question.max_iterations = settings.at("max_iterations");
  if (method == "higher_order") question.order = settings.at("order");
  return question;
}

template <typename Real>
void CheckCase(const nlohmann::json& settings, const golden::TensorFile& file, const char* dtype, Counts* counts) {
  Question question = QuestionOf(settings);
  question.root_dtype = kDtype<Real>;
  const golden::Tensor& tensor = file.At("A");
  const int64_t n = tensor.shape[0];
  const Real* const a = tensor.As<Real>(dtype);
  Matrix<Real> matrix(a, a + n * n);
  // The CPU reads only the lower triangle of a matrix, but the device reads both triangles. The test therefore mirrors
  // the lower triangle.
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = i + 1; j < n; ++j) matrix[static_cast<size_t>(i * n + j)] = matrix[static_cast<size_t>(j * n + i)];
  }
  const Answer<Real> answer = Solve<Real>(question, n, {matrix});
  const RootStatus& status = answer.status[0];
  Matrix<Real> of_cpu(matrix.size());
  RootResult result;
  const bool found = InverseRoot(ForCpu(question), question.root, 1, n, a, of_cpu.data(), &result).ok();
  // If a method does not converge within the maximum number of iterations, InverseRoot() may accept the result, but the
  // device reports a failure.
  if (!found || result.outcome.rungs_used > 0 || result.outcome.converged == 0) {
    CHECK(status.failure != RootFailure::kNone);
    ++counts->left_to_the_ladder;
    return;
  }
  CHECK(status.failure == RootFailure::kNone);
  ++counts->computed;
  if (question.method != RootMethod::kEigen) {
    // In float32, rounding errors may increase or reduce the number of iterations by up to 2.
    const int leeway = sizeof(Real) == 8 ? 0 : 2;
    CHECK(std::abs(status.iterations - result.outcome.iterations) <= leeway);
    // The reference implementation has the same tolerance. If an error is close to the tolerance, rounding decides
    // whether the reference implementation stops, so it may make one iteration more or fewer than the device.
    const auto recorded = settings.at("iterations").get<int>();
    if (settings.at("status") == "CONVERGED") CHECK(std::abs(status.iterations - recorded) <= leeway + 1);
  }
  if (settings.at("informative").get<bool>() || settings.at("tol_exact").is_null()) return;
  const golden::Tensor& exact = file.At("X_exact");
  const double* const expected = exact.As<double>("F64");
  double distance = 0;
  double largest = 0;
  for (int64_t i = 0; i < n * n; ++i) {
    const double difference = std::fabs(static_cast<double>(answer.matrices[0][static_cast<size_t>(i)]) - expected[i]);
    if (!(difference <= distance)) distance = difference;
    largest = std::max(largest, std::fabs(expected[i]));
  }
  CHECK(distance <= settings.at("tol_exact").get<double>() * largest);
}

TEST_CASE("recorded roots are computed within their tolerances, in about the recorded number of iterations") {
  std::map<std::string, Counts> counts;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(SHAMPOO_GOLDEN_DIR) / "matrix_root")) {
    if (entry.path().extension() != ".safetensors") continue;
    const golden::TensorFile file = golden::ReadSafetensors(entry.path());
    const nlohmann::json settings = nlohmann::json::parse(file.metadata.at("case"));
    if (settings.at("root_denominator") != 1) continue;  // the optimizer computes only roots with denominator 1
    CAPTURE(entry.path().filename().string());
    Counts& of_method = counts[settings.at("method").get<std::string>()];
    if (file.At("A").dtype == "F64") {
      CheckCase<double>(settings, file, "F64", &of_method);
    } else {
      CheckCase<float>(settings, file, "F32", &of_method);
    }
  }
  for (const auto& [method, of_method] : counts) {
    MESSAGE(method << ": " << of_method.computed << " computed, " << of_method.left_to_the_ladder << " failed");
    CHECK(of_method.computed > 4 * of_method.left_to_the_ladder);
  }
}

}  // namespace
}  // namespace shampoo::cuda_test
