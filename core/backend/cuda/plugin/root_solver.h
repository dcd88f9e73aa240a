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
#include "core/backend/cuda/plugin/device_memory.h"
#include "core/base/status.h"

namespace shampoo::cuda {

// A batch of n x n matrices whose roots are computed. All matrices belong to the same group and have the same `root`.
// The starts of consecutive matrices are `stride` elements apart.
struct RootBatch {
  int64_t n = 0;
  int64_t count = 0;
  int64_t stride = 0;
  Dtype computation = Dtype::kF32;  // dtype of the elements of `matrices`
  Dtype root_dtype = Dtype::kF32;   // dtype in which the roots are computed
  double limit = 0;                 // the largest magnitude that an element of a root may have
  int64_t root = 1;                 // r in the exponent -exponent_multiplier / r
  // In: the matrices F, exactly symmetric, with both triangles. Out: each root X in the same form, or F if the status
  // reports a failure.
  void* matrices = nullptr;
  const double* divisor = nullptr;  // on the device: F is first divided by *divisor
  // On the device, by matrix: address of the flag RootSpec::may_be_diagonal. nullptr: all flags are 0.
  const int32_t* const* may_be_diagonal = nullptr;
  const int32_t* active = nullptr;  // on the device; *active is 0 if the step was rejected: no results are written
  RootStatus* status = nullptr;     // on the device, by matrix; the caller sets `ticket`
  // On the device, by matrix: the statuses of earlier roots of the same matrices. If this is not nullptr, the roots
  // of the batch will be compared with the earlier roots. Each root then uses the epsilon of the earlier root of its
  // matrix, and the diagonal shortcut (RootMember::shortcut) only if the earlier root used it. may_be_diagonal is
  // ignored.
  const RootStatus* compared = nullptr;
};

// A kind of batch that a solver must be able to compute.
struct RootSizes {
  RootMethod method;
  int64_t n;
  int64_t count;  // the largest number of matrices in a batch
  Dtype root_dtype;
  bool tracked = false;  // the key track_root_residuals
};

class RootMeter;
struct RootBuffers;
struct RootChunk;
struct RunningCount;

// Computes the roots of whole batches with the group's method:
// X = (F / divisor + epsilon I)^(-exponent_multiplier / root), by the rules of core/roots (trace_scaling, clamp,
// diagonal shortcut, epsilon of higher_order, pseudo-inverse). There is no recovery ladder: the status reports
// a failure if the method cannot compute a result, or if the result is not finite, exceeds `limit` or is not a root of
// its matrix. Solvers receive the identity instead of a matrix that is not finite. With track_root_residuals, the roots
// are also compared with roots that are computed in float64.
class RootSolver {
 public:
  // Creates a solver for batches of these sizes. Allocates the host memory that cuSOLVER requests for them.
  static Status Create(const std::vector<RootSizes>& sizes, const Handles& handles, std::unique_ptr<RootSolver>* out);
  ~RootSolver();
  RootSolver(const RootSolver&) = delete;
  RootSolver& operator=(const RootSolver&) = delete;

  // Returns how many bytes of device memory suffice for any of the batches. A workspace must be aligned to 256 bytes.
  int64_t WorkspaceBytes() const;
  // Enqueues the computation of a batch. Does not allocate. Method cans does not wait, and method eigen waits only if
  // cuSOLVER waits. Unless the stream is being captured, the coupled methods (newton, higher_order) wait after every
  // few iterations, and stop when no matrix needs more iterations. The batch is divided into chunks that fit the
  // workspace.
  Status Compute(const RootBatch& batch, const DeviceSettings& group, const Handles& handles, void* workspace);
  // Computes the eigenvectors of matrices with at least two rows. The root dtype must be the computation dtype, and
  // may_be_diagonal must be nullptr; `limit` is ignored. Replaces each matrix by the matrix whose columns are the
  // eigenvectors, ordered by decreasing eigenvalue or, if `ascending` is true, by increasing eigenvalue. A matrix whose
  // status reports a failure is not replaced. one_by_one: if true, each matrix is decomposed by a separate call of
  // cuSOLVER.
  Status ComputeBases(const RootBatch& batch, bool ascending, bool one_by_one, const Handles& handles, void* workspace);
  // Like the other Compute(), but uses `spec` instead of the settings of a group, and does not compare the roots with
  // roots in float64. If spec.may_be_diagonal is true, RootBatch::may_be_diagonal is ignored, and all flags are 1.
  Status Compute(const RootBatch& batch, const RootSpec& spec, const Handles& handles, void* workspace);
  // Uses the method `how` to retry a root that Compute() could not compute, and waits for the result. The batch
  // `matrix` has one matrix. Its fields from RootBatch::divisor to RootBatch::status are ignored. The matrix is
  // replaced if *out reports no failure. If `how` does not support this root, *out reports RootFailure::kSolver.
  Status Retry(const RootBatch& matrix, double divisor, RetryMethod how, const DeviceSettings& group,
               const Handles& handles, void* workspace, RootStatus* out);

 private:
  // A kind of batch: its sizes, and the solvers that cuSOLVER offers for it.
  struct Kind {
    RootMethod method;
    int64_t n;
    Dtype root_dtype;
    int64_t chunk;         // the largest number of matrices in a chunk
    int64_t solver_bytes;  // device memory that cuSOLVER requests for a chunk
    bool has_batched;      // cuSOLVER can decompose a chunk in one call
    bool has_single;       // cuSOLVER can decompose a single matrix
  };
  // Memory that cuSOLVER requests.
  struct SolverMemory {
    int64_t device = 0;
    int64_t host = 0;
  };

  RootSolver();
  Status PrepareMeter(const std::vector<RootSizes>& sizes, const Handles& handles);
  Status ComputeChunks(const RootBatch& batch, const RootSpec& spec, const Handles& handles, void* workspace,
                       RootMeter* meter);
  Status Prepare(const RootSizes& sizes, const Handles& handles);
  Status MemoryOfBatches(RootSizes sizes, const Handles& handles, SolverMemory* memory) const;
  Status MemoryOfBatch(const RootSizes& sizes, const Handles& handles, SolverMemory* memory) const;
  Status MemoryOfOne(const RootSizes& sizes, const Handles& handles, SolverMemory* memory) const;
  Status RootsOfChunk(const RootChunk& chunk, const Handles& handles, const RootBuffers& buffers, const Kind& kind);
  Status EigenRoots(const RootChunk& chunk, const Handles& handles, const RootBuffers& buffers, const Kind& kind);
  // Writes the eigenvectors to the rows of buffers.matrices[0], and the eigenvalues to buffers.vectors[0]. Also
  // computes the vectors with which DecompositionFits (roots_rules.h) checks the decomposition.
  Status Decompose(const RootChunk& chunk, const Handles& handles, const RootBuffers& buffers, const Kind& kind);
  Status BasesOfChunk(const RootChunk& chunk, bool ascending, const Handles& handles, const RootBuffers& buffers,
                      const Kind& kind);
  Status SolveEigen(const RootChunk& chunk, const Handles& handles, const RootBuffers& buffers, const Kind& kind);
  Status SolveBatch(const RootChunk& chunk, const Handles& handles, const RootBuffers& buffers, int64_t solver_bytes);
  Status SolveOne(const RootChunk& chunk, int64_t member, const Handles& handles, const RootBuffers& buffers,
                  int64_t solver_bytes);
  RunningCount Running() const;
  const Kind* Find(RootMethod method, int64_t n, Dtype root_dtype) const;

  std::vector<Kind> kinds_;
  std::vector<char> host_memory_;     // the host memory that cuSOLVER requests
  int64_t workspace_bytes_ = 0;       // without the workspace of meter_, which follows in memory
  std::unique_ptr<RootMeter> meter_;  // nullptr if no root is tracked
  cusolverDnParams_t params_ = nullptr;
  syevjInfo_t jacobi_ = nullptr;
  OwnedEvent counted_;
  MappedMemory count_;  // the number of matrices of a chunk that need more iterations (RunningCount)
};

}  // namespace shampoo::cuda
