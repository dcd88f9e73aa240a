// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/basis_solver.h"

#include <utility>

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/gemm.h"

namespace shampoo::cuda {

EqualArrays BasisSolver::In(const Factors& factors, void* buffer) {
  const auto at = static_cast<size_t>(factors.run.dim);
  const auto element = static_cast<int64_t>(SizeOf(factors.args.computation));
  const BatchItem& item = factors.batch.items[static_cast<size_t>(factors.run.first)];
  return {static_cast<char*>(buffer) + item.matrix_at[at] * element, factors.group.matrix_stride[at]};
}

Status BasisSolver::Multiply(const Handles& handles, const Factors& factors, bool transpose, void* a, void* b,
                             void* c) {
  const int64_t d = factors.batch.items[static_cast<size_t>(factors.run.first)].block->shape[factors.run.dim];
  const auto in = [&](void* buffer) -> GemmInput {
    const EqualArrays arrays = In(factors, buffer);
    return {arrays.data, d, arrays.stride};
  };
  const EqualArrays to = In(factors, c);
  return Gemm(handles.blas, {.dtype = factors.args.computation, .transpose_a = transpose}, d, d, d, in(a), in(b),
              {to.data, d, to.stride}, factors.run.count);
}

Status BasisSolver::Compute(const Handles& handles, const Factors& factors, const DeviceSettings& settings,
                            BasisMethod method) const {
  const BasisTables& basis = factors.args.basis;
  const bool iterates = method == BasisMethod::kQr;
  SHAMPOO_CUDA_TRY(ScaleFactors(handles.stream, factors.args, factors.run, iterates));
  if (iterates) {
    SHAMPOO_RETURN_IF_ERROR(Iterate(handles, factors, settings));
  } else {
    if (settings.basis_tolerance > 0) {
      SHAMPOO_RETURN_IF_ERROR(
          Multiply(handles, factors, false, factors.args.batch.matrices, basis.bases, basis.rotations));
      SHAMPOO_RETURN_IF_ERROR(Compare(handles, factors, basis.bases, basis.rotations, true));
    }
    SHAMPOO_RETURN_IF_ERROR(Solve(handles, factors, settings.basis_sort == BasisSort::kAscending, false));
  }
  const int64_t d = factors.batch.items[static_cast<size_t>(factors.run.first)].block->shape[factors.run.dim];
  SHAMPOO_CUDA_TRY(FinishBases(handles.stream, factors.args, factors.run, !iterates && d > 1));
  return {};
}

Status BasisSolver::PreloadSingle(const Handles& handles, const Factors& factors) const {
  Factors one = factors;
  one.run.count = 1;
  return Solve(handles, one, false, true);
}

Status BasisSolver::Solve(const Handles& handles, const Factors& factors, bool ascending, bool one_by_one) const {
  const BatchItem& item = factors.batch.items[static_cast<size_t>(factors.run.first)];
  const Block& block = *item.block;
  const int k = factors.run.dim;
  if (block.shape[k] == 1) return {};
  const EqualArrays matrices = In(factors, factors.args.batch.matrices);
  const Tables& tables = factors.args.tables;
  const int64_t in_group = factors.run.first - static_cast<int64_t>(factors.group.first);
  RootBatch batch;
  batch.n = block.shape[k];
  batch.count = factors.run.count;
  batch.stride = matrices.stride;
  batch.computation = batch.root_dtype = factors.args.computation;
  batch.matrices = matrices.data;
  batch.divisor = factors.divisor;
  batch.active = &tables.state->go;
  batch.status = tables.roots + factors.group.first_root + k * static_cast<int64_t>(factors.group.count) + in_group;
  return solver_->ComputeBases(batch, ascending, one_by_one, handles, workspace_);
}

Status BasisSolver::Compare(const Handles& handles, const Factors& factors, void* q, void* product,
                            bool is_previous) const {
  SHAMPOO_RETURN_IF_ERROR(Multiply(handles, factors, true, q, product, factors.args.basis.rotated));
  SHAMPOO_CUDA_TRY(CompareBases(handles.stream, factors.args, factors.run, is_previous));
  return {};
}

// Computes bases by orthogonal iteration. A is the matrix that ScaleFactors() has computed, and q is the current
// approximation of its eigenbasis. The first q is the previous basis, in the buffer `bases`. All later q and the
// products A q alternate between the buffers `rotations` and `products`.
Status BasisSolver::Iterate(const Handles& handles, const Factors& factors, const DeviceSettings& settings) const {
  const BasisTables& basis = factors.args.basis;
  const BasisArgs& args = factors.args;
  const BasisRun& run = factors.run;
  void* const a = args.batch.matrices;
  void* q = basis.bases;
  void* product = basis.rotations;
  void* spare = basis.products;
  for (int64_t i = 0; i < settings.basis_iterations; ++i) {
    SHAMPOO_RETURN_IF_ERROR(Multiply(handles, factors, false, a, q, product));
    if (settings.basis_tolerance > 0) SHAMPOO_RETURN_IF_ERROR(Compare(handles, factors, q, product, i == 0));
    if (i == 0 && settings.basis_sort == BasisSort::kBefore) {
      SHAMPOO_CUDA_TRY(OrderColumns(handles.stream, args, run, q, product, ColumnOrder::kDecreasing));
      SHAMPOO_CUDA_TRY(PermuteColumns(handles.stream, args, run, product, spare));
      std::swap(product, spare);
    }
    SHAMPOO_CUDA_TRY(Orthogonalize(handles.stream, args, run, q, product));
    q = product;
    std::swap(product, spare);
  }
  const bool sorts = settings.basis_sort == BasisSort::kAfter || settings.basis_sort == BasisSort::kAscending;
  if (sorts) {
    // Sort the columns of q even if q is accurate enough for basis_tolerance.
    SHAMPOO_RETURN_IF_ERROR(Multiply(handles, factors, false, a, q, product));
    SHAMPOO_CUDA_TRY(OrderColumns(
        handles.stream, args, run, q, product,
        settings.basis_sort == BasisSort::kAscending ? ColumnOrder::kIncreasing : ColumnOrder::kDecreasing));
  }
  SHAMPOO_CUDA_TRY(FinishIteration(handles.stream, args, run, q, sorts));
  return {};
}

}  // namespace shampoo::cuda
