// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/roots/coupled.h"
#include "core/roots/resolvent_root.h"
#include "core/roots/root.h"
#include "core/roots/workspace.h"

namespace shampoo {

// The doors through which the recovery ladder reaches its solvers. They have a file of their own so that a test can put
// others in their place, which fail at a rung, call and block of its choice.

// As blas::Syevd, by any driver; eigenvalues go to l. float32 knows divide and conquer alone.
template <typename Root>
int SolveEigen(const RootSpec& spec, Rung rung, EigenDriver driver, int64_t n, Root* a, Root* l,
               const RootWorkspace<Root>& workspace);

// The coupled iteration of spec.method.
template <typename Root>
CoupledResult<Root> SolveCoupled(const RootSpec& spec, Rung rung, int64_t n, int scale,
                                 const RootWorkspace<Root>& workspace);

// The inverse square root without eigenvectors.
ResolventResult SolveResolvents(const RootSpec& spec, Rung rung, int64_t n, double epsilon,
                                const RootWorkspace<float>& workspace);

}  // namespace shampoo
