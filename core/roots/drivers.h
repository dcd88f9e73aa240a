// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "core/roots/coupled.h"
#include "core/roots/eigensolver.h"
#include "core/roots/root.h"
#include "core/roots/workspace.h"

namespace shampoo {

// The functions of solver.h call RunEigenDriver() and RunCoupled(). Tests replace solver.cc by functions that inject
// failures and otherwise call the same two functions.
template <typename Root>
int RunEigenDriver(EigenDriver driver, int64_t n, Root* a, Root* l, const RootWorkspace<Root>& workspace) {
  if constexpr (std::is_same_v<Root, double>) {
    if (driver == EigenDriver::kRelativelyRobust) return blas::Syevr(n, a, l, workspace.Work(n), workspace.ints);
    if (driver == EigenDriver::kImplicitQr) return blas::Syev(n, a, l, workspace.Work(n));
  }
  return SolveInStages(n, a, l, workspace.Work(n), workspace.ints, workspace.tiles);
}

template <typename Root>
CoupledResult<Root> RunCoupled(const RootSpec& spec, int64_t n, int scale, const RootWorkspace<Root>& workspace) {
  return spec.method == RootMethod::kNewton ? NewtonRoot(spec, n, scale, workspace)
                                            : HigherOrderRoot(spec, n, scale, workspace);
}

}  // namespace shampoo
