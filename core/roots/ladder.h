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

// Memory for the rungs of the recovery ladder that compute in float64. All threads share one RecoveryMemory, because it
// is large and rarely needed.
struct RecoveryMemory {
  std::mutex mutex;
  RootWorkspace<double> workspace{};
};

// The memory in which a root is computed.
struct RootMemory {
  Dtype root_dtype;
  void* own;  // memory of the calling thread, as in RootWorkspace::memory; its elements have the dtype root_dtype
  int32_t* own_ints;         // memory of the calling thread, as in RootWorkspace::ints
  RecoveryMemory* recovery;  // not used if root_dtype is kF64
  Tiles* tiles = nullptr;    // if set, idle threads may help with a large matrix
};

// Computes the inverse root of a matrix with the method of `spec`. If this method fails, tries the rungs of the
// recovery ladder: the same method in float64; eigendecomposition in float64, with each value of EigenDriver in turn.
// The matrix is first scaled by a power of two (RootScale), so that no solver reaches the limits of its dtype. x is
// written only on success. A rung fails if its root has an element of a magnitude above `limit`.
template <typename Real>
RootOutcome ComputeRoot(const RootSpec& spec, const SymmetricView<Real>& matrix, const RootMemory& memory, double limit,
                        const SymmetricTarget<Real>& x);

// Computes the inverse root of a matrix for which the requested method has failed on a device with the outcome `first`.
// Tries the rungs of the host: kFloat64 to kEigenQr. kFloat64 is tried even if the root dtype is float64, because the
// solvers of the host and of the device differ. With method `cans`, kFloat64 is skipped, because this rung would repeat
// the computation of the device.
template <typename Real>
RootOutcome RecoverRoot(const RootSpec& spec, const SymmetricView<Real>& matrix, const RootOutcome& first,
                        const RootWorkspace<double>& workspace, double limit, const SymmetricTarget<Real>& x);

}  // namespace shampoo
