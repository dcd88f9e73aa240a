// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/status.h"
#include "core/base/tiles.h"
#include "core/config/settings.h"

namespace shampoo {

// The workspace of Orthogonalize for a rows x columns matrix.
template <typename Real>
struct OrthogonalizeMemory {
  Real* memory;            // Elements() elements
  Tiles* tiles = nullptr;  // if set, idle threads may help with a large matrix

  static int64_t Elements(Orthogonalization how, int64_t rows, int64_t columns);
};

// Replaces the row-major rows x columns matrix X = U diag(s) V^T by a matrix close to U V^T. A matrix of zeros is not
// changed. Multiplying X by a power of two does not change the result. The result does not depend on the number of
// threads.
//
// With orthogonalization=newton_schulz, X is divided by one of its norms (key ns_norm). Then each of ns_steps
// iterations applies an odd polynomial of degree 3 or 5 to the singular values (Muon, arXiv 2502.16982). The default
// coefficients are those of Polar Express (arXiv 2505.16932). A singular value much smaller than the norm stays small.
// With coefficients that the user has chosen, the result may contain infinities or NaN.
//
// With orthogonalization=exact, U V^T is computed from a singular value decomposition in float64. A singular value
// below kLeastSingularValue times the Frobenius norm counts as 0, and its singular vectors contribute nothing. All
// other singular values become 1.
//
// Returns false if LAPACK fails; X is then undefined.
template <typename Real>
bool Orthogonalize(const Settings& settings, int64_t rows, int64_t columns, Real* x,
                   const OrthogonalizeMemory<Real>& memory);

// Writes the result of Orthogonalize for the matrix `a` to x. Allocates its own workspace. On failure x is unchanged.
template <typename Real>
Status OrthogonalizeMatrix(const Settings& settings, int64_t rows, int64_t columns, const Real* a, Real* x);

}  // namespace shampoo
