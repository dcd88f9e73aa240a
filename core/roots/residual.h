// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/dtype.h"
#include "core/roots/matrix.h"
#include "core/roots/root.h"
#include "core/roots/workspace.h"

namespace shampoo {

// How far a root is from the one that float64 gives.
struct RootResiduals {
  double error = 0;     // max |X - X64| / max |X64|, X64 the float64 eigen root of the same A + shift I
  double residual = 0;  // max |X^(1 / exponent) - (A + shift I)| / max |A + shift I|; infinity: X has no such power
};

// The last refresh of one inverse root.
struct RootReport {
  RootOutcome outcome;
  RootResiduals residuals;  // with track_root_residuals
};

// x: the root of the matrix, outcome: how it came about. Uses the workspace of method eigen.
template <typename Real>
RootResiduals MeasureRoot(const RootSpec& spec, const RootOutcome& outcome, const SymmetricView<Real>& matrix,
                          const SymmetricView<Real>& x, const RootWorkspace<double>& workspace);

// X^power of a symmetric matrix, in the workspace; nullptr: there is none, as an eigenvalue is
// negative. rank_rtol: eigenvalues at or below this times the largest count as 0 and stay so; negative: none do.
template <typename Real>
const double* RaiseSymmetric(const SymmetricView<Real>& x, double power, double rank_rtol,
                             const RootWorkspace<double>& workspace);

// The eigenvalues of an n x n matrix of this dtype that are 0 but for its rounding, relative to the largest.
double ZeroEigenvalueTolerance(int64_t n, Dtype dtype);

}  // namespace shampoo
