// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/backend/cuda/plugin/root_solver.h"
#include "core/base/status.h"

namespace shampoo::cuda {

// Compares roots with those computed in float64, and writes the deviations to their statuses (track_root_residuals). On
// the CPU, MeasureRoot (core/roots/residual.h) does the same.
class RootMeter {
 public:
  // The size of matrices, and the largest number of them in a chunk.
  struct Sizes {
    int64_t n;
    int64_t count;
  };

  static Status Create(const std::vector<Sizes>& sizes, const Handles& handles, std::unique_ptr<RootMeter>* out);

  // Returns the bytes of device memory that the functions below need.
  int64_t WorkspaceBytes() const { return workspace_bytes_; }
  // Copies the matrices of a chunk, before their roots are computed.
  static Status Begin(const RootChunk& chunk, const Handles& handles, void* workspace);
  // Measures the roots of the chunk with which Begin() was called last. Does not wait.
  Status Measure(const RootChunk& chunk, const Handles& handles, void* workspace);

 private:
  RootMeter() = default;

  std::unique_ptr<RootSolver> solver_;  // method eigen in float64
  int64_t workspace_bytes_ = 0;
};

}  // namespace shampoo::cuda
