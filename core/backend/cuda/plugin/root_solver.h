// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublas_v2.h>
#include <cusolverDn.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/backend/cuda/interface.h"
#include "core/backend/cuda/plugin/cuda_handles.h"
#include "core/base/status.h"

namespace shampoo::cuda {

// Matrices of one order whose roots are due, all of one group and root; a matrix has n * n elements, `stride` apart.
struct RootBatch {
  int64_t n = 0;
  int64_t count = 0;
  int64_t stride = 0;
  Dtype computation = Dtype::kF32;  // of the elements
  Dtype root_dtype = Dtype::kF32;   // that the roots are computed in
  double limit = 0;                 // the largest element that X may have
  int64_t root = 1;                 // r of the exponent -exponent_multiplier / r
  // In: F, both triangles and exactly symmetric. Out: X, the same, where its status tells of no failure; F elsewhere.
  void* matrices = nullptr;
  const double* divisor = nullptr;                  // on the device: A = F / *divisor
  const int32_t* const* may_be_diagonal = nullptr;  // on the device, by matrix: where its flag is
  const int32_t* active = nullptr;  // on the device: 0: nothing is done, the step was refused. Statuses stay.
  RootStatus* status = nullptr;     // on the device, by matrix; its ticket is the caller's
};

// Batches that there will be.
struct RootSizes {
  RootMethod method;
  int64_t n;
  int64_t count;  // at most
  Dtype root_dtype;
};

struct RootBuffers;
struct RootChunk;

// Computes the roots of whole batches by the group's method, without a look at a result on the host: X = (F / divisor +
// epsilon I)^(-exponent_multiplier / root) by the rules of core/roots (clamp, diagonal shortcut, relative epsilon of
// higher_order, pseudo-inverse). There is no recovery ladder: a root that its method cannot compute, that is not
// finite, above `limit`, or no root of its matrix, has a status that says so. A matrix that is not finite is replaced
// before a solver sees it.
class RootSolver {
 public:
  // Asks cuSOLVER what it needs, and allocates what it wants on the host.
  static Status Create(const std::vector<RootSizes>& sizes, const Handles& handles, std::unique_ptr<RootSolver>* out);
  ~RootSolver();
  RootSolver(const RootSolver&) = delete;
  RootSolver& operator=(const RootSolver&) = delete;

  // On the device, aligned to 256 bytes: enough for any of the batches.
  int64_t WorkspaceBytes() const { return workspace_bytes_; }
  // Enqueues the work; nothing is allocated and nothing waited for. A batch is worked off in chunks that the workspace
  // has room for; how many calls a chunk takes depends on the method and the order alone.
  Status Compute(const RootBatch& batch, const DeviceSettings& group, const Handles& handles, void* workspace);

 private:
  // What is known of batches of one kind.
  struct Kind {
    RootMethod method;
    int64_t n;
    Dtype root_dtype;
    int64_t chunk;
    int64_t solver_bytes;
  };

  RootSolver() = default;
  Status Prepare(const RootSizes& sizes, const Handles& handles);
  Status SolverBytes(const RootSizes& sizes, const Handles& handles, int64_t* device, int64_t* host) const;
  Status EigenRoots(const RootChunk& chunk, const Handles& handles, const RootBuffers& buffers, int64_t solver_bytes);
  Status SolveEigen(const RootChunk& chunk, const Handles& handles, const RootBuffers& buffers, int64_t solver_bytes);
  const Kind* Find(RootMethod method, int64_t n, Dtype root_dtype) const;

  std::vector<Kind> kinds_;
  std::vector<char> host_memory_;
  int64_t workspace_bytes_ = 0;
  cusolverDnParams_t params_ = nullptr;
  syevjInfo_t jacobi_ = nullptr;
};

}  // namespace shampoo::cuda
