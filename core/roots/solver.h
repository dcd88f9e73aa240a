// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/roots/cans.h"
#include "core/roots/coupled.h"
#include "core/roots/resolvent_root.h"
#include "core/roots/root.h"
#include "core/roots/workspace.h"

namespace shampoo {

// The solvers that the recovery ladder calls. They are defined in a separate translation unit so that tests can replace
// them and inject failures at a chosen rung, call and factor matrix (RootSpec::id). Therefore every solver takes the
// spec and the rung, even if it uses neither.

// Computes an eigendecomposition with the LAPACK algorithm `driver`. a, l and the result are those of SolveInStages()
// (eigensolver.h). In float32, the driver must be kDivideAndConquer.
template <typename Root>
int SolveEigen(const RootSpec& spec, Rung rung, EigenDriver driver, int64_t n, Root* a, Root* l,
               const RootWorkspace<Root>& workspace);

// Runs the coupled iteration that spec.method selects.
template <typename Root>
CoupledResult<Root> SolveCoupled(const RootSpec& spec, Rung rung, int64_t n, int scale,
                                 const RootWorkspace<Root>& workspace);

// Computes the root with the root method `cans`.
CansResult SolveCans(const RootSpec& spec, Rung rung, int64_t n, int scale, const RootWorkspace<double>& workspace);

// Computes the inverse square root without eigenvectors, with RunResolvents().
ResolventResult SolveResolvents(const RootSpec& spec, Rung rung, int64_t n, double epsilon,
                                const RootWorkspace<float>& workspace);

}  // namespace shampoo
