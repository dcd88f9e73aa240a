// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Computes inverse roots of random difficult matrices (random_matrix.h). Each call must return a finite, symmetric root
// or an error that names the reason. For a power -1/r with an integer r, and without pseudo_inverse, the residual of
// the root must be at most twice the reported residual, apart from rounding. If the condition number is small enough
// and the dtype can represent the root, the test judges the root: it compares the root with a reference in higher
// precision, and counts a failed call as a wrong root. At least 99 % of the judged roots must be right.
//
// docs/roots.md explains the columns of the printed table.
#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>

#include "core/roots/inverse_root.h"
#include "tests/roots/random_matrix.h"

namespace shampoo::roots_test {
namespace {

// The root to compute: the power -denominator / numerator of a matrix.
struct Wanted {
  RootMethod method;
  int64_t numerator;
  int64_t denominator;
  Settings settings;
};

// A row of the printed table: the results of one method in one dtype.
struct Row {
  int64_t all = 0;
  int64_t by_rung[kRungCount] = {};
  int64_t unconverged = 0;  // roots whose iteration stopped at root_max_iterations
  int64_t refused = 0;      // calls that returned an error
  int64_t judged = 0;       // calls whose root can be compared with the reference, including failed calls
  int64_t judged_right = 0;
};

constexpr const char* kMethods[] = {"eigen", "newton", "higher_order", "pseudo_inverse"};

// Returns the index of the method in kMethods.
int MethodIndex(const Wanted& wanted) {
  const bool pseudo_inverse = wanted.settings.root_rank_handling == RankHandling::kPseudoInverse;
  return pseudo_inverse ? 3 : static_cast<int>(wanted.method);
}

int failures = 0;

void Fail(const RandomMatrix& matrix, const Wanted& wanted, bool float32, const char* what, double value) {
  if (++failures > 20) return;
  std::printf("FAILED: %s %s n %" PRId64 ", largest eigenvalue about %g, %s, root %" PRId64 "/%" PRId64
              ", epsilon %g: %s (%g)\n",
              float32 ? "f32" : "f64", matrix.kind.c_str(), matrix.n, matrix.size, kMethods[MethodIndex(wanted)],
              wanted.numerator, wanted.denominator, wanted.settings.epsilon, what, value);
}

Wanted Draw(const RandomMatrix& matrix, std::mt19937_64* random) {
  const auto pick = [random](int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(*random); };
  Wanted wanted;
  wanted.method = static_cast<RootMethod>(pick(2));
  constexpr int64_t kRoots[] = {1, 2, 3, 4, 6, 8};
  wanted.numerator = kRoots[pick(5)];
  wanted.denominator = wanted.method != RootMethod::kNewton && pick(5) == 0 ? 3 : 1;
  wanted.settings.root_method = wanted.method;
  wanted.settings.exponent_multiplier = 1;
  wanted.settings.root_tolerance = 1e-6;
  wanted.settings.root_max_iterations = 100;
  wanted.settings.root_order = 2 + pick(3);
  wanted.settings.root_rank_rtol = -1;
  const double decades = std::uniform_real_distribution<double>(1, 16)(*random);
  const bool relative = wanted.method == RootMethod::kHigherOrder || pick(3) != 0;
  wanted.settings.epsilon = std::pow(10.0, -decades);
  if (relative && wanted.method != RootMethod::kHigherOrder) wanted.settings.epsilon *= matrix.size;
  // A denormal epsilon does not have enough digits for a comparison.
  wanted.settings.epsilon = std::max(wanted.settings.epsilon, std::numeric_limits<double>::min());
  if (wanted.method == RootMethod::kEigen && pick(3) == 0) {
    wanted.settings.root_rank_handling = RankHandling::kPseudoInverse;
    wanted.settings.epsilon = 0;
  }
  return wanted;
}

template <typename Real>
void Judge(const RandomMatrix& matrix, const Wanted& wanted, Row* row) {
  constexpr bool kFloat32 = sizeof(Real) == 4;
  const int64_t n = matrix.n;
  const double unit = std::numeric_limits<Real>::epsilon() / 2.0;
  const double limit = std::numeric_limits<Real>::max();
  const double exponent = static_cast<double>(wanted.denominator) / static_cast<double>(wanted.numerator);
  const std::vector<Real> a(matrix.a.begin(), matrix.a.end());
  std::vector<Real> x(a.size(), Real{-77});
  RootResult result;
  const Status status =
      InverseRoot(wanted.settings, wanted.numerator, wanted.denominator, n, a.data(), x.data(), &result);
  ++row->all;

  // InverseRoot() computes the root of A + shift I. If the call fails, it returns no shift, so the test computes the
  // shift that the method uses.
  const Eigen eigen = JacobiEigen(n, matrix.a);
  const auto [least, largest] = std::ranges::minmax(eigen.values);
  double shift = result.outcome.shift;
  if (!status.ok()) {
    shift = wanted.settings.epsilon;
    if (wanted.method == RootMethod::kHigherOrder) shift = std::max(shift * static_cast<double>(largest), 1e-16);
    if (wanted.method == RootMethod::kEigen) shift -= static_cast<double>(std::min(least, Wide{0}));
  }
  const double lowest = static_cast<double>(least + static_cast<Wide>(shift));
  const double condition = lowest > 0 ? static_cast<double>(largest + static_cast<Wide>(shift)) / lowest
                                      : std::numeric_limits<double>::infinity();
  const double size_of_root = std::pow(lowest, -exponent);
  const bool representable =
      lowest > 0 && size_of_root < limit / 2 && size_of_root > std::numeric_limits<Real>::min() / unit;
  const bool pseudo_inverse = MethodIndex(wanted) == 3;
  // A pseudo-inverse omits eigenvalues below 2 * n * unit times the largest one.
  const bool kept_whole = !pseudo_inverse || condition * unit * static_cast<double>(4 * n) < 1;
  const bool judged = condition * unit < 0.01 && representable && kept_whole;
  row->judged += judged;

  const auto fail = [&](const char* what, double value) { Fail(matrix, wanted, kFloat32, what, value); };
  if (!status.ok()) {
    ++row->refused;
    if (status.code() != Code::kNumeric) fail("a status other than SHAMPOO_E_NUMERIC", 0);
    if (status.message().find("could not be computed: ") == std::string::npos) fail("the message has no reason", 0);
    for (const Real value : x) {
      if (value != Real{-77}) fail("x was written although the call failed", static_cast<double>(value));
    }
    // A lower bound of the eigenvalues that method eigen raises to the power. A pseudo-inverse omits at least the
    // eigenvalues below unit times the largest one. Without pseudo_inverse, all eigenvalues of A + shift I are at least
    // epsilon.
    const double kept = pseudo_inverse ? unit * static_cast<double>(largest) : wanted.settings.epsilon;
    // If the root of this bound does not overflow, method eigen must succeed.
    if (wanted.method == RootMethod::kEigen && std::pow(kept, -exponent) < limit / 2) {
      fail(status.message().c_str(), lowest);
    }
    return;
  }
  ++row->by_rung[static_cast<int>(result.outcome.rung)];
  row->unconverged += result.outcome.converged == 0;
  const Matrix root(x.begin(), x.end());
  double norm = 0;
  for (int64_t i = 0; i < n * n; ++i) {
    const double value = static_cast<double>(x[static_cast<size_t>(i)]);
    if (!std::isfinite(value)) fail("an element is not finite", value);
    if (x[static_cast<size_t>(i)] != x[static_cast<size_t>(i % n * n + i / n)]) {
      fail("the root is not symmetric", value);
    }
    norm = std::fmax(norm, std::fabs(value));
  }

  if (wanted.denominator == 1 && !pseudo_inverse) {
    Matrix b = matrix.a;
    for (int64_t i = 0; i < n; ++i) b[static_cast<size_t>(i * n + i)] += static_cast<Wide>(shift);
    const double residual = QuadResidual(n, b, root, wanted.numerator);
    // The library computes the reported residual in float64, so the test allows rounding errors.
    const double size = static_cast<double>(largest + static_cast<Wide>(shift));
    const double rounding = 64.0 * static_cast<double>(n) * std::numeric_limits<double>::epsilon() *
                            (1 + size * std::pow(norm, static_cast<double>(wanted.numerator)));
    if (!std::isnan(result.residual) && !(residual <= 2 * result.residual + rounding)) {
      fail("the residual is above the reported residual", residual / result.residual);
    }
    if (std::isnan(result.residual) && judged) fail("no residual is reported", residual);
  }
  if (!judged) return;
  const Matrix exact = Apply(n, eigen, [&](Wide value) {
    return std::pow(value + static_cast<Wide>(shift),
                    -static_cast<Wide>(wanted.denominator) / static_cast<Wide>(wanted.numerator));
  });
  const double relative = RelativeError(root, exact);
  const double allowed = 10 * std::sqrt(static_cast<double>(n)) * unit * condition + 1e-5;
  if (relative <= allowed) {
    ++row->judged_right;
  } else if (result.outcome.converged == 1 && !(relative <= 2 * result.residual)) {
    // The call succeeded, and the reported residual is too small for this error.
    fail("the root is wrong, but its status reports success", relative / allowed);
  }
}

void Print(const std::map<std::pair<int, bool>, Row>& rows) {
  std::printf(
      "| method | dtype | matrices | as asked | float64 | eigen | dsyevr | dsyev | refused | maximum reached | judged "
      "| "
      "right |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const auto& [key, row] : rows) {
    std::printf("| %s | %s | %" PRId64, kMethods[key.first], key.second ? "f32" : "f64", row.all);
    for (const int64_t count : row.by_rung) std::printf(" | %" PRId64, count);
    std::printf(" | %" PRId64 " | %" PRId64 " | %" PRId64 " | %" PRId64 " |\n", row.refused, row.unconverged,
                row.judged, row.judged_right);
  }
}

int Main(int argc, char** argv) {
  int64_t count = 2000;
  uint64_t seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--count") == 0) count = std::atoll(argv[i + 1]);
    if (std::strcmp(argv[i], "--seed") == 0) seed = static_cast<uint64_t>(std::atoll(argv[i + 1]));
  }
  std::mt19937_64 random(seed);
  std::map<std::pair<int, bool>, Row> rows;
  for (int64_t i = 0; i < count; ++i) {
    const bool float32 = random() % 2 == 0;
    const RandomMatrix matrix = MakeRandomMatrix(float32, &random);
    const Wanted wanted = Draw(matrix, &random);
    Row* const row = &rows[{MethodIndex(wanted), float32}];
    float32 ? Judge<float>(matrix, wanted, row) : Judge<double>(matrix, wanted, row);
  }
  Print(rows);
  for (const auto& [key, row] : rows) {
    if (static_cast<double>(row.judged_right) < 0.99 * static_cast<double>(row.judged) || row.judged == 0) {
      std::printf("FAILED: %s: %" PRId64 " of %" PRId64 " judged roots are right: expected at least 99 %%\n",
                  kMethods[key.first], row.judged_right, row.judged);
      ++failures;
    }
  }
  std::printf("%" PRId64 " matrices, %d failures\n", count, failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace shampoo::roots_test

int main(int argc, char** argv) { return shampoo::roots_test::Main(argc, argv); }
