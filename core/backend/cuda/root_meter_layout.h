// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/backend/cuda/interface.h"
#include "core/backend/cuda/root_workspace.h"
#include "core/base/round_up.h"

// Layout of the device memory in which the roots of a chunk (root_workspace.h) are computed again in float64, to
// measure the errors of the roots that the step has computed (track_root_residuals).
namespace shampoo::cuda {

// Offsets of the arrays in this memory, in bytes.
struct RootMeterLayout {
  int64_t originals = 0;  // the matrices, in float64
  int64_t roots = 0;      // their roots, in float64; later, powers of the roots that the step has computed
  int64_t statuses = 0;   // RootStatus of each float64 root
  int64_t one = 0;        // the number 1: RootBatch::divisor when the solver computes powers of roots
  int64_t solver = 0;     // workspace of the float64 solver
};

// n: the size of the matrices. count: the number of matrices in the chunk.
inline RootMeterLayout MakeRootMeterLayout(int64_t n, int64_t count) {
  constexpr int64_t kAlignment = 256;
  int64_t bytes = 0;
  const auto take = [&bytes](int64_t of_array) {
    const int64_t at = bytes;
    bytes += RoundUp(of_array, kAlignment);
    return at;
  };
  RootMeterLayout layout;
  layout.originals = take(count * n * n * static_cast<int64_t>(sizeof(double)));
  layout.roots = take(count * n * n * static_cast<int64_t>(sizeof(double)));
  layout.statuses = take(count * static_cast<int64_t>(sizeof(RootStatus)));
  layout.one = take(sizeof(double));
  layout.solver = bytes;
  return layout;
}

// Returns the bytes of device memory for chunks of up to `count` matrices. The part that cuSOLVER needs is estimated.
inline int64_t EstimatedMeterBytes(int64_t n, int64_t count) {
  const int64_t chunk = LargestRootChunk(RootMethod::kEigen, n, count, Dtype::kF64);
  return MakeRootMeterLayout(n, count).solver + EstimatedWorkspaceBytes(RootMethod::kEigen, n, chunk, Dtype::kF64);
}

}  // namespace shampoo::cuda
