// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

#include "core/base/dtype.h"
#include "core/base/tiles.h"
#include "core/roots/matrix.h"
#include "core/roots/root.h"
#include "core/roots/workspace.h"

namespace shampoo {

// Memory for the recovery in float64. It is rarely needed and large, so that all threads share it.
struct RecoveryMemory {
  std::mutex mutex;
  RootWorkspace<double> workspace{};
};

// Where a root is computed: `own` is of the root dtype, and of this thread alone. With a root dtype of float64
// `recovery` is not needed.
struct RootMemory {
  Dtype root_dtype;
  void* own;
  int32_t* own_ints;
  RecoveryMemory* recovery;
  Tiles* tiles = nullptr;  // idle threads may help with a large matrix
};

// The inverse root of a matrix by the method that is asked for, and where that fails by the rungs of the recovery
// ladder: the same method in float64; eigendecomposition in float64; the other drivers of LAPACK. The matrix is scaled
// to order one beforehand, so that no solver meets its limits. x is written only on success, and then every element of
// it is at most `limit`.
template <typename Real>
RootOutcome ComputeRoot(const RootSpec& spec, const SymmetricView<Real>& matrix, const RootMemory& memory, double limit,
                        const SymmetricTarget<Real>& x);

// The same where what was asked for has been tried on a device, and failed as `first` tells: the rungs above it.
// Another solver in float64 is one of them, whatever the root dtype.
template <typename Real>
RootOutcome RecoverRoot(const RootSpec& spec, const SymmetricView<Real>& matrix, const RootOutcome& first,
                        const RootWorkspace<double>& workspace, double limit, const SymmetricTarget<Real>& x);

}  // namespace shampoo
