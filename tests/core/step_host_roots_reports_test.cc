// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of HostRoots, which computes inverse roots on the host for a device. These tests check the roots and statuses
// that HostRoots returns to the device, and its reports.
#include <cmath>

#include "tests/core/roots_on_host.h"

namespace shampoo {
namespace {

TEST_CASE(
    "HostRoots returns the roots and their statuses to the device, and the roots have the dtype computation_dtype") {
  for (const char* const dtype : {"f32", "f64"}) {
    RootsOnHost one(1, Cat("computation_dtype=", dtype), {}, 3);
    one.host.matrices[{0, 1}] = {9, 0, 0, 0, 4, 0, 0, 0, 1};
    one.host.may_be_diagonal[{0, 1}] = true;
    one.Run();
    one.CheckRoot(0, 0, kRootOnHost);
    one.CheckRoot(0, 1, {1 / 3.0, 0, 0, 0, 0.5, 0, 0, 0, 1});
    const cuda::RootStatus& eigen = one.host.statuses[{0, 0}];
    CHECK(eigen.kind == RootKind::kEigen);
    CHECK(eigen.failure == RootFailure::kNone);
    CHECK(eigen.diagonal_input == 0);
    CHECK(eigen.ticket == 0);  // the host does not return the ticket, because the device knows it
    CHECK(one.host.statuses[{0, 1}].kind == RootKind::kDiagonal);
    CHECK(one.host.statuses[{0, 1}].diagonal_input == 1);
  }
}

TEST_CASE("the status of a root contains the number of iterations of its method") {
  RootsOnHost one(1, "root_method=newton");
  one.Run();
  const cuda::RootStatus& status = one.host.statuses[{0, 0}];
  CHECK(status.kind == RootKind::kNewton);
  CHECK(status.iterations > 0);
  CHECK(status.iterations == one.roots->ReportOf(0).outcome.iterations);
  CHECK(status.converged == 1);
}

TEST_CASE("if one matrix contains NaN, only its root fails, and the failure is reported for this matrix") {
  RootsOnHost one(2);
  one.host.matrices[{1, 0}][1] = one.host.matrices[{1, 0}][2] = std::nan("");
  one.Run();
  for (int64_t factor = 0; factor < 4; ++factor) {
    const bool fails = factor == 2;
    CHECK(one.roots->ReportOf(factor).outcome.ok() == !fails);
    CHECK(one.host.statuses[{factor / 2, static_cast<int>(factor % 2)}].failure ==
          (fails ? RootFailure::kNanInput : RootFailure::kNone));
  }
  one.CheckRoot(1, 1, kRootOnHost);
}

TEST_CASE("a root that its method cannot compute is computed by another rung, on any number of threads") {
  for (const int threads : {1, 3}) {
    Placement placement;
    placement.threads = threads;
    RootsOnHost one(4, "root_method=newton root_max_iterations=2", placement);
    one.Run();
    for (int64_t factor = 0; factor < 8; ++factor) {
      one.CheckRoot(factor / 2, static_cast<int>(factor % 2), kRootOnHost);
      const RootOutcome& outcome = one.roots->ReportOf(factor).outcome;
      CHECK(outcome.rung == Rung::kEigen);
      CHECK(outcome.first_failure == RootFailure::kNotConverged);
    }
  }
}

TEST_CASE("the residuals of a root are measured only with track_root_residuals=true") {
  for (const bool tracks : {true, false}) {
    RootsOnHost one(1, Cat("track_root_residuals=", tracks ? "true" : "false"));
    one.Run();
    const RootResiduals& residuals = one.roots->ReportOf(0).residuals;
    CHECK(residuals.error < 1e-5);
    CHECK(residuals.residual < 1e-5);
    CHECK((residuals.error > 0) == tracks);
    one.CheckRoot(0, 0, kRootOnHost);
  }
}

}  // namespace
}  // namespace shampoo
