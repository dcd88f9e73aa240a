// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/dtype.h"
#include "core/roots/ladder.h"
#include "core/roots/matrix.h"
#include "core/roots/root.h"
#include "core/roots/workspace.h"

namespace shampoo {

// The accuracy of a computed root X = (A + shift I)^exponent of a matrix A, with RootOutcome::shift and
// RootSpec::exponent. max |M| is the largest magnitude of an element of M.
struct RootResiduals {
  // max |X - X64| / max |X64|. X64 is the root of A + shift I that method eigen computes in float64. Infinity if X64
  // cannot be computed.
  double error = 0;
  // max |X^(1 / exponent) - (A + shift I)| / max |A + shift I|. Infinity if the power of X cannot be computed.
  double residual = 0;
};

// Describes the last refresh of one inverse root.
struct RootReport {
  RootOutcome outcome;
  RootResiduals residuals;  // computed only if track_root_residuals is true
  // Whether the block was skipped in the latest step in which a refresh of this root was due. If so, `outcome` is from
  // an earlier refresh.
  bool is_stale = false;
};

// Measures the accuracy of x, a computed root of `matrix`. outcome: the outcome of that computation. workspace: as
// large as method eigen needs.
template <typename Real>
RootResiduals MeasureRoot(const RootSpec& spec, const RootOutcome& outcome, const SymmetricView<Real>& matrix,
                          const SymmetricView<Real>& x, const RootWorkspace<double>& workspace);
// Does the same with the float64 memory in `memory`: `own` if root_dtype is kF64, otherwise `recovery`.
template <typename Real>
RootResiduals MeasureRoot(const RootSpec& spec, const RootOutcome& outcome, const SymmetricView<Real>& matrix,
                          const SymmetricView<Real>& x, const RootMemory& memory);

// Returns X^power for a symmetric matrix X. The result is in the workspace. Eigenvalues at or below rank_rtol times
// the largest one count as 0 and stay 0. If rank_rtol is negative, no eigenvalue counts as 0. Returns nullptr if the
// power cannot be computed, for example because rank_rtol and an eigenvalue are negative.
template <typename Real>
const double* RaiseSymmetric(const SymmetricView<Real>& x, double power, double rank_rtol,
                             const RootWorkspace<double>& workspace);

}  // namespace shampoo
