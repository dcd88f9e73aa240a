// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/backend/cuda/plugin/root_solver.h"
#include "core/base/status.h"

namespace shampoo::cuda {

// Computes RootResiduals (core/roots/residual.h) of roots, and writes them to the statuses of these roots (key
// track_root_residuals). For this purpose, computes the roots again in float64. On the CPU, MeasureRoot does the same.
class RootMeter {
 public:
  // n: the size of the matrices. count: the largest number of such matrices in a chunk (root_workspace.h).
  struct Sizes {
    int64_t n;
    int64_t count;
  };

  static Status Create(const std::vector<Sizes>& sizes, const Handles& handles, std::unique_ptr<RootMeter>* out);

  // Returns the bytes of device memory that the functions below need.
  int64_t WorkspaceBytes() const { return workspace_bytes_; }
  // Copies the matrices of a chunk. Call this before the roots are computed, because roots replace the matrices.
  static Status Begin(const RootChunk& chunk, const Handles& handles, void* workspace);
  // Measures the roots of the chunk with which Begin() was called last. Does not wait for the device.
  Status Measure(const RootChunk& chunk, const Handles& handles, void* workspace);

 private:
  RootMeter() = default;

  std::unique_ptr<RootSolver> solver_;  // computes roots by method eigen in float64
  int64_t workspace_bytes_ = 0;
};

}  // namespace shampoo::cuda
