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

// Computes the eigenbases of the factor matrices of a run (core/roots/eigenbasis.h).
class BasisSolver {
 public:
  // A run with its matrices.
  struct Factors {
    BasisArgs args;
    const BlockBatch& batch;
    const ShapeGroup& group;
    BasisRun run;
    const double* divisor;  // device address of the number 1, because the matrices are already divided
  };

  // workspace: device memory that the solver uses.
  BasisSolver(RootSolver* solver, void* workspace) : solver_(solver), workspace_(workspace) {}

  // Replaces the factor matrices in the batch's matrices by their bases. The factor matrices have already been divided
  // by the bias correction. settings: of the group. method: of this refresh.
  Status Compute(const Handles& handles, const Factors& factors, const DeviceSettings& settings,
                 BasisMethod method) const;

  // Makes cuSOLVER load the kernels of the solver for one matrix, which Compute() uses if the solver for batches
  // refuses a batch.
  Status PreloadSingle(const Handles& handles, const Factors& factors) const;

  // Returns the matrices of a run in one of the buffers.
  static EqualArrays In(const Factors& factors, void* buffer);
  // Computes c = op(a) b for all matrices of a run. The arguments are buffers.
  static Status Multiply(const Handles& handles, const Factors& factors, bool transpose, void* a, void* b, void* c);

 private:
  Status Solve(const Handles& handles, const Factors& factors, bool ascending, bool one_by_one) const;
  Status Iterate(const Handles& handles, const Factors& factors, const DeviceSettings& settings) const;
  Status Compare(const Handles& handles, const Factors& factors, void* q, void* product, bool is_previous) const;

  RootSolver* solver_;
  void* workspace_;
};

}  // namespace shampoo::cuda
