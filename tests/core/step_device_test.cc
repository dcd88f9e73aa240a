// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests the host's records of steps on a device: counters, pending roots, and the errors of rejected steps.
#include <cmath>
#include <limits>

#include "core/step/device_errors.h"
#include "core/step/device_roots.h"
#include "core/step/device_step.h"
#include "tests/core/log_capture.h"
#include "tests/core/status_check.h"
#include "tests/core/step_fixture.h"

namespace shampoo {
namespace {

using cuda::Rejection;

const OptionKeys kAsyncRoots = "use_merge_dims=false refresh_growth=0 precondition_frequency=4 root_async=2";

TEST_CASE("the host knows the counters of one arena at a time, and only while no other code can have changed them") {
  const StepFixture fixture({}, {{2, 3}});
  DeviceCounters counters(fixture.plan());
  const char arena[2] = {};
  CHECK(!counters.AreKnown(arena));
  counters.steps[0] = 7;
  counters.SetInitial(arena);
  CHECK(counters.steps[0] == 0);
  CHECK(counters.AreKnown(arena));
  CHECK(!counters.AreKnown(arena + 1));
  counters.Forget();
  CHECK(!counters.AreKnown(arena));
  counters.SetKnown(arena);
  CHECK(counters.AreKnown(arena));
  counters.MarkCaptured();
  CHECK(!counters.AreKnown(arena));
  CHECK(counters.AreKnownUnlessReplayed(arena));
  counters.MarkUnseenWrite();
  CHECK(counters.has_unseen_write());
  CHECK(!counters.AreKnownUnlessReplayed(arena));
}

TEST_CASE(
    "DeviceCounters includes the state snapshot_step of each block if this rank owns a block that takes snapshots") {
  CHECK(!DeviceCounters(StepFixture({}, {{2, 3}}).plan()).has_block_counters());
  const StepFixture async(kAsyncRoots, {{2, 3}});
  DeviceCounters counters(async.plan());
  CHECK(counters.has_block_counters());
  counters.block_counters[0] = 5;
  counters.SetInitial(nullptr);
  CHECK(counters.block_counters[0] == 0);
  CHECK(!DeviceCounters(StepFixture(kAsyncRoots, {{2, 3}}, ReplicaPlacement(1, 2)).plan()).has_block_counters());
}

TEST_CASE("pending roots are ready only for the snapshot from which they are computed") {
  const StepFixture fixture(kAsyncRoots, {{2, 3}, {2, 3}});
  StartedRoots roots(2);
  const char arena[2] = {};
  const RootTask tasks[] = {RootTask::kTakeSnapshot, RootTask::kNone};
  const int64_t steps[] = {3};
  CHECK(!roots.AreReady(0, 3));
  roots.Record(fixture.plan(), tasks, steps, arena);
  CHECK(roots.AreReady(0, 3));
  CHECK(!roots.AreReady(0, 4));
  CHECK(!roots.AreReady(1, 3));
  roots.ForgetUnlessFrom(arena);
  CHECK(roots.AreReady(0, 3));
  roots.ForgetUnlessFrom(arena + 1);
  CHECK(!roots.AreReady(0, 3));
  roots.SetStarted(1, 5);
  roots.Forget();
  CHECK(!roots.AreReady(1, 5));
  roots.SetStarted(1, 5);
  roots.DisableAfterCapture();
  CHECK(!roots.AreReady(1, 5));
}

// Returns the report of a rejected step. The member `block` is -1, so the report names no block.
cuda::StepReport ReportOf(Rejection rejection, double value) {
  cuda::StepReport report{};
  report.rejection = rejection;
  report.value = value;
  report.element = 4;
  report.dim = 1;
  report.rejected_ticket = 8;
  report.block = -1;
  return report;
}

TEST_CASE("the error of a rejected step fits the reason that the device reports") {
  StepFixture fixture("use_merge_dims=false grafting=rmsprop", {{2, 3}});
  const double infinity = std::numeric_limits<double>::infinity();
  struct Case {
    Rejection rejection;
    double value;
    Code code;
    const char* says;
  };
  for (const Case& one :
       {Case{Rejection::kGradientNotFinite, infinity, Code::kNumeric,
             "the gradient of parameter \"p0\" has an infinity at element 4 (block p0/0)"},
        Case{Rejection::kParamNotFinite, std::nan(""), Code::kNumeric, "parameter \"p0\" has NaN at element 4"},
        Case{Rejection::kElementTooLarge, 1e39, Code::kNumeric, "is too large: it would overflow f32"},
        Case{Rejection::kMomentTooLarge, 1e30, Code::kNumeric, "is too large: the grafting state would overflow f32"},
        Case{Rejection::kProductTooLarge, 1e30, Code::kNumeric, "is too large: factor.1 would overflow f32"},
        Case{Rejection::kFactorTooLarge, 1e30, Code::kNumeric, "is too large: factor.1 would overflow f32"},
        Case{Rejection::kFactorNotFinite, infinity, Code::kNumeric, "the factor matrix p0/0/factor.1 has an infinity"},
        Case{Rejection::kCounter, -3, Code::kState, "the state \"group.0/step\" is -3"},
        Case{Rejection::kBoundScalar, -1, Code::kInvalid, "the scalar bound to group 0: key beta1: the value -1"},
        Case{Rejection::kNone, 0, Code::kInternal, "for the unknown reason 0"},
        Case{Rejection::kOtherRank, 0, Code::kInternal, "rejected a step for the unknown reason"}}) {
    cuda::StepReport report = ReportOf(one.rejection, one.value);
    report.block = 0;
    const int64_t expected[] = {1};
    CheckError(DeviceError(fixture.inputs(), report, expected, 8), one.code, one.says);
  }
}

TEST_CASE("if a step finds a state that the host did not expect, the error names the state or reports a replay") {
  StepFixture fixture(kAsyncRoots, {{2, 3}});
  const int64_t expected[] = {5};
  cuda::StepReport report = ReportOf(Rejection::kSchedule, 9);
  CheckError(DeviceError(fixture.inputs(), report, expected, 8), Code::kState,
             "the state \"group.0/step\" is 9, but the previous step left 4");
  CheckError(DeviceError(fixture.inputs(), report, expected, 7), Code::kState,
             "a captured step was replayed as step 10 of group 0");
  report.block = 0;
  CheckError(DeviceError(fixture.inputs(), report, expected, 8), Code::kState,
             "the state \"p0/0/snapshot_step\" is not");
}

TEST_CASE("the error of a step that cannot be captured has the number of the step and the reason") {
  StepFixture fixture(kAsyncRoots, {{2, 3}});
  const Settings& settings = fixture.state().hyper_parameters().settings(0);
  const Block& block = fixture.plan().blocks[0];
  CheckError(RejectCapture(fixture.inputs(), block, GroupScheduleOf(settings, 4), 4), Code::kState,
             "inverse roots of group 0 are due at step 4 (precondition_frequency=4, root_async=2)");
  CheckError(RejectCapture(fixture.inputs(), block, GroupScheduleOf(settings, 6), 6), Code::kState,
             "inverse roots of group 0 are put into use at step");
}

TEST_CASE(
    "LogSkipped logs the blocks and steps that a device skipped between two reports, and returns the last block whose "
    "update was skipped") {
  StepFixture fixture({}, {{2, 3}, {2, 3}});
  cuda::StepReport before{};
  cuda::StepReport now{};
  const LogCapture log;
  CHECK(LogSkipped(fixture.inputs(), before, now) == -1);
  CHECK(log.messages().empty());

  now.nonfinite_blocks = 2;
  now.skipped_block = 1;
  CHECK(LogSkipped(fixture.inputs(), before, now) == -1);
  REQUIRE(log.messages().size() == 1);
  CHECK(log.messages()[0] ==
        "a block is skipped: the gradient of block p1/0 (one of 2 such blocks) is too large or not finite");

  before = now;
  now.nonfinite_blocks = 4;
  now.skipped_updates = 1;
  now.block_without_update = 0;
  now.skipped_steps = 1;
  CHECK(LogSkipped(fixture.inputs(), before, now) == 0);
  REQUIRE(log.messages().size() == 3);
  CHECK(log.messages()[1].find("a step is skipped: the gradient of block p1/0 is too large or not finite") == 0);
  CHECK(log.messages()[2].find("the direction of block p0/0 is not finite") == 0);
}

TEST_CASE("ReportOfDevice copies the status of a root") {
  cuda::RootStatus status{};
  status.kind = RootKind::kNewton;
  status.failure = RootFailure::kNotConverged;
  status.iterations = 12;
  status.converged = -1;
  status.solver_info = 3;
  status.diagonal_input = 1;
  status.epsilon = 0.25;
  status.shift = 0.5;
  status.error = 1e-5;
  status.residual = 1e-4;
  const RootReport report = ReportOfDevice(status);
  const RootOutcome& outcome = report.outcome;
  CHECK(outcome.epsilon == 0.25);
  CHECK(outcome.shift == 0.5);
  CHECK(report.residuals.error == 1e-5);
  CHECK(report.residuals.residual == 1e-4);
  CHECK(outcome.kind == RootKind::kNewton);
  CHECK(outcome.failure == RootFailure::kNotConverged);
  CHECK(outcome.iterations == 12);
  CHECK(outcome.converged == -1);
  CHECK(outcome.solver_info == 3);
  CHECK(outcome.diagonal_input);
  CHECK(outcome.rung == Rung::kRequested);
}

TEST_CASE("a single device reports no failures of other ranks") {
  SingleDevice single;
  CheckOk(single.PriorFailure());
  CheckOk(single.TakeFailure());
  for (const bool captured : {false, true}) {
    CHECK(single.CanReturnEarlierErrors(captured));
    CHECK(!single.CanReportFailure(captured));
  }
  CHECK(single.is_skipped_update_known());
  CHECK(single.IsStepKnown(false));
  const int64_t expected = 3;
  CHECK(single.CountedSteps(&expected, nullptr) == &expected);
  CHECK(!single.CanRejectLate());
  CHECK(!single.has_to_await_reports());
  CheckError(single.RejectionError({}, Numeric("its own"), 0, false), Code::kNumeric, "its own");
}

}  // namespace
}  // namespace shampoo
