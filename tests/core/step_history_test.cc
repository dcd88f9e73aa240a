// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests StepHistory, which records steps for later calls: counts, reports of inverse roots, and errors that the next
// step returns.
#include "core/step/step_history.h"

#include "tests/core/log_capture.h"
#include "tests/core/status_check.h"
#include "tests/core/step_fixture.h"

namespace shampoo {
namespace {

// Two matrices with two factor matrices each.
struct TwoMatrices : StepFixture {
  explicit TwoMatrices(const OptionKeys& keys = {}) : StepFixture(keys + "use_merge_dims=false", {{2, 3}, {2, 3}}) {}

  RootLedger& roots() { return history().roots(); }
  RootReport& Report(int64_t block, int dim) { return roots().ReportsOf(block)[dim]; }
  void Fail(int64_t block, int dim) { Report(block, dim).outcome.failure = RootFailure::kNanInput; }
  void Record(int64_t block) { roots().Record(plan(), plan().block(block), state().hyper_parameters().settings(0)); }
  void CheckStats(const std::vector<std::pair<std::string, double>>& expected) {
    for (const auto& [name, number] : expected) {
      CAPTURE(name);
      double value = -1;
      CHECK(history().Stat(name, &value));
      CHECK(value == number);
    }
  }
};

TEST_CASE(
    "if updates of several blocks were skipped, one error is returned, and it names the first of these blocks in the "
    "plan") {
  TwoMatrices two;
  const HyperParameters& hyper_parameters = two.state().hyper_parameters();
  CheckOk(two.history().RaiseSkippedUpdate(hyper_parameters));
  two.history().DeferSkippedUpdate(1, OnNonFinite::kError);
  two.history().DeferSkippedUpdate(0, OnNonFinite::kError);
  two.history().DeferSkippedUpdate(1, OnNonFinite::kError);
  CheckError(two.history().RaiseSkippedUpdate(hyper_parameters), Code::kNumeric, "the direction of block p0/0 was not");
  CheckOk(two.history().RaiseSkippedUpdate(hyper_parameters));
}

TEST_CASE("the error for a skipped update advises a larger epsilon only if the direction depends on it") {
  const std::vector<int64_t> matrix = {2, 3};
  const std::vector<int64_t> vector = {3};  // has no factor matrices
  struct Case {
    const char* keys;
    std::vector<int64_t> shape;
    const char* advice;
  };
  for (const Case& one : {Case{"method=sgd", matrix, "Try a lower learning rate"},
                          Case{"method=sign", matrix, "Try a lower learning rate"},
                          Case{"method=muon", matrix, "Try a lower learning rate"},
                          Case{"method=muon second_moment=row", matrix, "Try a lower learning rate"},
                          Case{"method=muon second_moment=element", matrix, "Try a larger epsilon, a lower"},
                          Case{"method=muon", vector, "Try a larger adam_epsilon, a lower"},
                          Case{"method=shampoo", matrix, "Try a larger root_relative_epsilon, a lower"},
                          Case{"method=shampoo", vector, "Try a larger grafting_epsilon, a lower"},
                          Case{"method=adam", matrix, "Try a larger epsilon, a lower learning rate"}}) {
    CAPTURE(std::string(one.keys));
    StepFixture fixture(one.keys, {one.shape});
    fixture.history().DeferSkippedUpdate(0, OnNonFinite::kError);
    CheckError(fixture.history().RaiseSkippedUpdate(fixture.state().hyper_parameters()), Code::kNumeric, one.advice);
  }
}

TEST_CASE("a skipped update is no error if on_nonfinite of the group is skip_block or skip_step") {
  TwoMatrices two;
  two.history().DeferSkippedUpdate(0, OnNonFinite::kSkipBlock);
  two.history().DeferSkippedUpdate(0, OnNonFinite::kSkipStep);
  CheckOk(two.history().RaiseSkippedUpdate(two.state().hyper_parameters()));
}

TEST_CASE("if a root fails at more than root_failure_tolerance refreshes in a row, one error reports this") {
  TwoMatrices two("root_failure_tolerance=1");
  bool is_forwarded = false;
  const LogCapture log;
  two.Fail(0, 1);
  two.Record(0);
  CHECK(two.roots().failing_root() == -1);
  CheckOk(two.history().RaiseRootFailure(&is_forwarded));
  two.Record(0);
  CHECK(two.roots().failing_root() == 1);
  CheckError(two.history().RaiseRootFailure(&is_forwarded), Code::kNumeric,
             "the inverse root of p0/0/factor.1 could not be computed at 2 refreshes in a row");
  CHECK(!is_forwarded);
  CheckOk(two.history().RaiseRootFailure(&is_forwarded));
  CHECK(log.messages().size() == 2);
}

TEST_CASE("a successful root resets the count of failures") {
  TwoMatrices two("root_failure_tolerance=1");
  const LogCapture log;
  two.Fail(0, 0);
  two.Record(0);
  two.Report(0, 0).outcome.failure = RootFailure::kNone;
  two.Record(0);
  two.Fail(0, 0);
  two.Record(0);
  CHECK(two.roots().failing_root() == -1);
}

TEST_CASE("RaiseRootFailure prefers a failure of this rank, and sets is_forwarded only for a failure of another rank") {
  TwoMatrices two("root_failure_tolerance=0");
  const LogCapture log;
  bool is_forwarded = false;
  two.history().DeferRootFailureOfOtherRank(2);
  CheckError(two.history().RaiseRootFailure(&is_forwarded), Code::kNumeric, "the inverse root of p1/0/factor.0");
  CHECK(is_forwarded);
  is_forwarded = false;
  two.history().DeferRootFailureOfOtherRank(2);
  two.Fail(0, 0);
  two.Record(0);
  CheckError(two.history().RaiseRootFailure(&is_forwarded), Code::kNumeric,
             "p0/0/factor.0 could not be computed at 1 refresh, which is more than root_failure_tolerance (0)");
  CHECK(!is_forwarded);
}

TEST_CASE("replacing the state discards the deferred errors") {
  TwoMatrices two("root_failure_tolerance=1");
  const LogCapture log;
  bool is_forwarded = false;
  two.history().DeferSkippedUpdate(0, OnNonFinite::kError);
  two.history().DeferRootFailureOfOtherRank(2);
  two.Fail(0, 0);
  two.Record(0);
  two.Record(0);
  two.history().DiscardErrors();
  CheckOk(two.history().RaiseSkippedUpdate(two.state().hyper_parameters()));
  CheckOk(two.history().RaiseRootFailure(&is_forwarded));
  two.Record(0);
  CHECK(two.roots().failing_root() == -1);  // the number of failures in a row restarts at 0
}

TEST_CASE("factor matrices are numbered consecutively through the plan") {
  TwoMatrices two;
  CHECK(two.roots().FirstFactorOf(0) == 0);
  CHECK(two.roots().FirstFactorOf(1) == 2);
  CHECK(two.roots().DescribeRoot(3) == "inverse root of p1/0/factor.1");
}

TEST_CASE("roots are counted by their outcome") {
  TwoMatrices two;
  const LogCapture log;
  two.Report(0, 0).outcome.kind = RootKind::kDiagonal;
  two.Report(0, 1).outcome.rung = Rung::kEigenQr;
  two.Report(0, 1).outcome.first_failure = RootFailure::kSolver;
  two.Record(0);
  two.Fail(1, 0);
  two.Report(1, 1).outcome.kind = RootKind::kScalar;
  two.Record(1);
  two.CheckStats({{"root_computed", 3},
                  {"root_reused", 1},
                  {"root_retried", 1},
                  {"root_retried_dsyev", 1},
                  {"root_retried_float64", 0},
                  {"root_diagonal", 1},
                  {"root_eigen", 1},
                  {"root_scalar", 1}});
  REQUIRE(log.messages().size() == 2);
  CHECK(log.messages()[0].find("p0/0/factor.1 could not be computed at first") != std::string::npos);
  CHECK(log.messages()[1].find("p1/0/factor.0 could not be computed: ") != std::string::npos);
}

TEST_CASE("the statistics of residuals cover the factor matrices whose last refresh was measured") {
  TwoMatrices two("track_root_residuals=true");
  const double errors[] = {1, 5, 3, 100};
  for (int i = 0; i < 4; ++i) two.Report(i / 2, i % 2).residuals.error = errors[i];
  const LogCapture warnings;
  two.Fail(1, 1);  // a failed root is not measured
  two.Record(0);
  two.Record(1);
  two.CheckStats({{"root_error.mean", 3}, {"root_error.median", 3}, {"root_error.p90", 5}});
  two.CheckStats({{"root_error.max", 5}, {"root_error.worst", 1}, {"root_residual.max", 0}});
  const LogCapture log(LogLevel::kInfo);
  two.roots().FinishRefresh(false);
  CHECK(log.messages().empty());
  two.roots().FinishRefresh(true);
  REQUIRE(log.messages().size() == 1);
  CHECK(log.messages()[0].find("root_error mean 3, median 3, 90th percentile 5, largest 5 (p0/0/factor.1)") !=
        std::string::npos);
}

TEST_CASE("without measured roots, root_error.worst is -1 and the other statistics of residuals are 0") {
  TwoMatrices two;
  two.CheckStats({{"root_error.mean", 0}, {"root_error.max", 0}, {"root_error.worst", -1}});
}

TEST_CASE("StepHistory returns statistics only for their exact names, and StatNames lists these names") {
  TwoMatrices two;
  two.history().counts() = {3, 2, 1};
  two.CheckStats({{"steps", 3}, {"skipped_steps", 2}, {"nonfinite_blocks", 1}});
  double value = 0;
  for (const char* const name : {"", "root", "root_error", "root_error.", "root_error.most", "root_errors.max"}) {
    CAPTURE(std::string(name));
    CHECK(!two.history().Stat(name, &value));
  }
  const std::string names = StepHistory::StatNames();
  for (const char* const name : {"nonfinite_blocks", "skipped_steps", "root_retried_eigen", "root_residual.{mean"}) {
    CHECK_MESSAGE(names.find(name) != std::string::npos, name);
  }
}

}  // namespace
}  // namespace shampoo
