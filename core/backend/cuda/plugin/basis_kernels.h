// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/backend/cuda/plugin/kernel_tables.h"

// The kernels for methods that work in eigenbases (soap, kl_shampoo). core/backend/cpu/basis_step.cc contains the same
// step for the CPU. basis_batch_step.cc gives the order of the kernels and the contents of the buffers.
namespace shampoo::cuda {

// Records of all blocks, and the buffers that batches use one after another (DeviceLayout::BasisLayout).
struct BasisTables {
  BasisWork* work;       // by block
  BasisMember* members;  // by root
  double* sums;          // two vectors for each factor matrix of the batch
  int32_t* orders;       // one vector for each factor matrix of the batch
  // Buffers of tensors (basis_batch_step.cc).
  void* third;
  void* fourth;
  void* moved;  // empty if no block has more than two dims
  // Buffers of matrices. In a refresh, Q is the previous basis, and Q' is the new one.
  void* bases;     // Q; after StoreBases(): Q'
  void* turns;     // Q^T Q', which converts states; outside of a refresh: see LoadBases()
  void* products;  // intermediate results
  void* rotated;   // Q^T F Q, to check a basis; empty if basis_tolerance is 0
};

struct BasisArgs {
  Tables tables;
  BatchTables batch;
  BasisTables basis;
  Dtype computation;
};

// Consecutive items of a batch that have equal shapes, and one of their dims with a factor matrix. dim: -1 if all dims
// are processed.
struct BasisRun {
  int64_t first;
  int64_t count;
  int32_t dim;
};

// Selects the blocks that a kernel processes, by their tasks.
struct TaskSelection {
  bool computes, initializes;

  constexpr bool Takes(RootTask task) const {
    return (computes && task == RootTask::kCompute) || (initializes && task == RootTask::kInitialize);
  }
};

// basis_begin.cu
// Counts the gradient of each block, and computes the scalars of the block's step.
cudaError_t BeginBases(cudaStream_t stream, const BasisArgs& args);
// Copies Q to `bases`. whitens: also writes Q diag(s) to `turns`, where s are the inverse square roots of the
// eigenvalues. If the gradient initializes the block, writes I there instead.
cudaError_t LoadBases(cudaStream_t stream, const BasisArgs& args, bool whitens);
// Copies F / divisor, both triangles, to a buffer of matrices for the selected blocks, and I for all others.
cudaError_t LoadFactors(cudaStream_t stream, const BasisArgs& args, TaskSelection selection, void* to);
enum class RotatedState : int32_t { kFilteredGradient, kSecondMoment };
// Copies the filtered gradient or the second moment of the selected blocks to a buffer of tensors, or back.
cudaError_t LoadRotatedState(cudaStream_t stream, const BasisArgs& args, TaskSelection selection, RotatedState state,
                             void* to);
cudaError_t StoreRotatedState(cudaStream_t stream, const BasisArgs& args, TaskSelection selection, RotatedState state,
                              const void* from);

// basis_direction.cu
// Adds the relative epsilon, a multiple of the largest second moment, to BasisWork::moment_epsilon.
cudaError_t AddRelativeEpsilon(cudaStream_t stream, const BasisArgs& args);
// Updates the second moment of the grafting method with the gradient in `first`.
cudaError_t UpdateGrafting(cudaStream_t stream, const BasisArgs& args);
// Updates the states of the direction with the rotated gradient, and writes the direction in the eigenbases. With
// grafting, also replaces the rotated gradient by the filtered gradient. If a block is only initialized, its direction
// is 0, also in `second`, so that it need not be rotated back.
cudaError_t FilterInBases(cudaStream_t stream, const BasisArgs& args);
// Computes the direction of the grafting method and its norm from the filtered gradient in `first`.
cudaError_t DivideByGrafting(cudaStream_t stream, const BasisArgs& args);

// basis_factor_kernels.cu
// Computes the next d eigenvalues of one dim from the rotated gradient (kl_eigenvalues ema).
cudaError_t NextEigenvalues(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, int64_t d);
// Checks whether the factor matrices of a run stay finite if they are updated with the whitened gradients in a buffer
// of tensors.
cudaError_t CheckWhitened(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, int64_t tiles,
                          const void* whitened);
// Computes the eigenvalues of a block from the gradient in the batch's buffer `first`, if all factor matrices of the
// block are negligible (kl_init auto).
cudaError_t StartEigenvalues(cudaStream_t stream, const BasisArgs& args);
// Updates factor matrices with the products in the batch's matrices. initializes: true selects the blocks that the
// gradient initializes, and false selects all other blocks.
cudaError_t UpdateBasisFactors(cudaStream_t stream, const BasisArgs& args, bool initializes);
// Stores the next eigenvalues.
cudaError_t StoreEigenvalues(cudaStream_t stream, const BasisArgs& args);

// basis_refresh_kernels.cu
// Inspects the factor matrices of a run in the batch's matrices, scales them and adds basis_epsilon to their diagonals.
// The identity replaces a matrix that is not finite. keeps_zeros: whether negligible matrices and 1 x 1 matrices are
// treated like all other matrices; if false, their bases are the identity.
cudaError_t ScaleFactors(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, bool keeps_zeros);
// Marks the bases of a run that are accurate enough. `rotated` contains Q^T F Q for each basis Q. is_previous: the
// bases are the previous ones, which are kept if they are accurate enough.
cudaError_t CompareBases(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, bool is_previous);
// Completes the new bases of a run in the batch's matrices: copies the previous basis where it is kept or where no new
// one was computed. Also completes the statuses. is_solved: an eigensolver has already written the statuses.
cudaError_t FinishBases(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, bool is_solved);
// Replaces the products of the previous and the new bases in `turns` by I where the basis is kept.
cudaError_t FixTurns(cudaStream_t stream, const BasisArgs& args, const BasisRun& run);
// Replaces `turns` by the matrices that convert the second moment. With basis_transport rotate and kl_eigenvalues ema,
// also converts the eigenvalues.
cudaError_t TurnMoments(cudaStream_t stream, const BasisArgs& args, const BasisRun& run);
// Stores the new bases of the selected blocks, and copies them to `bases`.
cudaError_t StoreBases(cudaStream_t stream, const BasisArgs& args, TaskSelection selection);
// Sets the eigenvalues of a run to the diagonal of Q^T F Q (kl_eigenvalues basis). `products` contains F Q.
cudaError_t TakeEigenvalues(cudaStream_t stream, const BasisArgs& args, const BasisRun& run);
// Sets the tickets of the statuses of all selected blocks.
cudaError_t MarkBases(cudaStream_t stream, const BasisArgs& args, TaskSelection selection, int64_t ticket);

// basis_qr.cu
enum class ColumnOrder : int32_t { kDecreasing, kIncreasing };
// Computes the order of the columns of the bases q of a run (BasisTables::orders), by decreasing or increasing estimate
// of their eigenvalues. The estimates are the diagonal of Q^T A Q, where A is the factor matrix of the basis Q.
// product: A Q.
cudaError_t OrderColumns(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, const void* q,
                         const void* product, ColumnOrder order);
// Copies the columns of each matrix in the order of OrderColumns.
cudaError_t PermuteColumns(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, const void* from, void* to);
// Replaces the matrices a by the orthonormal factors of their QR decompositions, or by q if BasisMember::is_reached is
// set.
cudaError_t Orthogonalize(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, const void* q, void* a);
// Writes the last iterate q to the batch's matrices. sorts: writes the columns in the order of OrderColumns. A previous
// basis whose columns are not in this order is then not kept.
cudaError_t FinishIteration(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, const void* q, bool sorts);

}  // namespace shampoo::cuda
