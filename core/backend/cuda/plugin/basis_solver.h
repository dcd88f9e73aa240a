// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/block_batches.h"
#include "core/backend/cuda/plugin/basis_kernels.h"
#include "core/backend/cuda/plugin/cuda_handles.h"
#include "core/backend/cuda/plugin/root_solver.h"
#include "core/backend/cuda/plugin/tensor_products.h"
#include "core/base/status.h"

namespace shampoo::cuda {

// Computes the eigenbases of the factor matrices of a run (BasisRun). core/roots/eigenbasis.h does this on the CPU.
class BasisSolver {
 public:
  // The factor matrices of a run.
  struct Factors {
    BasisArgs args;
    const BlockBatch& batch;
    const ShapeGroup& group;
    BasisRun run;
    // Device address of BlockWork::divisor. This number is 1, because LoadFactors() has already divided the matrices.
    // nullptr: the object is only an argument of In() or Multiply().
    const double* divisor;
  };

  // workspace: device memory that `solver` uses.
  BasisSolver(RootSolver* solver, void* workspace) : solver_(solver), workspace_(workspace) {}

  // Replaces the factor matrices of a run, in the buffer BatchTables::matrices, by their bases. LoadFactors() must
  // already have divided the factor matrices by the bias correction. settings: the settings of the group. method: the
  // method of this refresh.
  Status Compute(const Handles& handles, const Factors& factors, const DeviceSettings& settings,
                 BasisMethod method) const;

  // Makes cuSOLVER load the kernels of its solver for a single matrix. Compute() uses this solver if the solver for
  // batches refuses a batch.
  Status PreloadSingle(const Handles& handles, const Factors& factors) const;

  // Returns the position of a run's matrices in a buffer of matrices.
  static EqualArrays In(const Factors& factors, void* buffer);
  // Computes C = A B, or C = A^T B with `transpose`, for all matrices of a run. a, b, c: the buffers of A, B, C.
  static Status Multiply(const Handles& handles, const Factors& factors, bool transpose, void* a, void* b, void* c);

 private:
  Status Solve(const Handles& handles, const Factors& factors, bool ascending, bool one_by_one) const;
  Status Iterate(const Handles& handles, const Factors& factors, const DeviceSettings& settings) const;
  Status Compare(const Handles& handles, const Factors& factors, void* q, void* product, bool is_previous) const;

  RootSolver* solver_;
  void* workspace_;
};

}  // namespace shampoo::cuda
