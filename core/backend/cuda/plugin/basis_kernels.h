// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/backend/cuda/plugin/kernel_tables.h"

// The kernels for methods that work in eigenbases (soap, kl_shampoo). core/backend/cpu/basis_step.cc contains the same
// step for the CPU. basis_batch_step.cc shows the order of the kernels and the contents of the buffers. In this file,
// `first` and `second` are the buffers BatchTables::first and second; "the batch's matrices" is BatchTables::matrices.
namespace shampoo::cuda {

// Records of all blocks, and buffers in device memory (DeviceLayout::BasisLayout). Each batch reuses the buffers of the
// previous batch.
struct BasisTables {
  BasisWork* work;       // by block
  BasisMember* members;  // by factor matrix; see DeviceBlock::root_at
  double* sums;          // two vectors for each factor matrix of the batch
  int32_t* orders;       // one vector for each factor matrix of the batch
  // Buffers of tensors (basis_batch_step.cc).
  void* third;
  void* fourth;
  void* moved;  // see tensor_products.h; empty if no block has more than two dims
  // Buffers of matrices. In a refresh, Q is the previous basis, and Q' is the new one.
  void* bases;      // Q; after StoreBases(): Q'
  void* rotations;  // Q^T Q', which rotates states; later, see RotateMoments(); outside of a refresh: see LoadBases()
  void* products;   // intermediate results
  void* rotated;    // input of CompareBases(), which checks bases; empty if basis_tolerance is 0
};

struct BasisArgs {
  Tables tables;
  BatchTables batch;
  BasisTables basis;
  Dtype computation;
};

// A run: consecutive items of a batch that have equal shapes, and the dim whose matrices are processed. dim: -1 if the
// matrices of all dims are processed.
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
// Increases gradient_count of each block that the step updates, and computes the scalars of the block's step. With
// grafting, selects the direction of the grafting method for blocks before start_preconditioning_step.
cudaError_t BeginBases(cudaStream_t stream, const BasisArgs& args);
// Copies Q from the state to `bases`. whitens: whether to also write Q diag(s) to `rotations`, where s are the inverse
// square roots of the eigenvalues. For a block that the gradient initializes, writes the identity to `rotations`
// instead.
cudaError_t LoadBases(cudaStream_t stream, const BasisArgs& args, bool whitens);
// For the selected blocks, writes both triangles of F / BasisWork::divisor to a buffer of matrices. For all other
// blocks, writes the identity.
cudaError_t LoadFactors(cudaStream_t stream, const BasisArgs& args, TaskSelection selection, void* to);
enum class RotatedState : int32_t { kFilteredGradient, kSecondMoment };
// Copies the filtered gradient or the second moment of the selected blocks to a buffer of tensors (LoadRotatedState),
// or from a buffer to the state (StoreRotatedState).
cudaError_t LoadRotatedState(cudaStream_t stream, const BasisArgs& args, TaskSelection selection, RotatedState state,
                             void* to);
cudaError_t StoreRotatedState(cudaStream_t stream, const BasisArgs& args, TaskSelection selection, RotatedState state,
                              const void* from);

// basis_direction.cu
// Adds AddedEpsilon(), which depends on the largest element of the new second moment, to BasisWork::moment_epsilon.
cudaError_t AddRelativeEpsilon(cudaStream_t stream, const BasisArgs& args);
// Updates the second moment of the grafting method with the gradient in `first`.
cudaError_t UpdateGrafting(cudaStream_t stream, const BasisArgs& args);
// Updates the filtered gradient and the second moment with the rotated gradient, and writes the direction in the
// eigenbases. With grafting, also replaces the rotated gradient by the filtered gradient. If the gradient only
// initializes a block, writes 0 as the direction, also to `second`, so that the direction need not be rotated back.
cudaError_t FilterInBases(cudaStream_t stream, const BasisArgs& args);
// Replaces the filtered gradient in `first` by the direction of the grafting method. For each tile, also computes the
// sum of the squares of this direction.
cudaError_t DivideByGrafting(cudaStream_t stream, const BasisArgs& args);

// basis_factor_kernels.cu
// Computes the new eigenvalues of the dim of a run from the rotated gradient and the old eigenvalues
// (kl_eigenvalues=ema). d: the length of this dim, which is the number of its eigenvalues.
cudaError_t NextEigenvalues(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, int64_t d);
// Checks whether the factor matrices of a run stay finite if the whitened gradients in the buffer `whitened` update
// them. Clears BlockWork::states_fit if they do not stay finite.
cudaError_t CheckWhitened(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, int64_t tiles,
                          const void* whitened);
// Computes the eigenvalues of a block from the gradient in the batch's buffer `first`, if all factor matrices of the
// block are negligible (kl_init=auto).
cudaError_t StartEigenvalues(cudaStream_t stream, const BasisArgs& args);
// Updates factor matrices with the gradient products in the batch's matrices. initializes: true selects the blocks
// that the gradient initializes, and false selects all other blocks.
cudaError_t UpdateBasisFactors(cudaStream_t stream, const BasisArgs& args, bool initializes);
// Stores the eigenvalues that NextEigenvalues() has computed.
cudaError_t StoreEigenvalues(cudaStream_t stream, const BasisArgs& args);

// basis_refresh_kernels.cu
// Scales the factor matrices of a run, which are in the batch's matrices, and adds basis_epsilon to their diagonals.
// Initializes the BasisMember of each matrix. Replaces matrices that are not finite by the identity. keeps_zeros:
// whether negligible matrices and 1 x 1 matrices are treated like all other matrices; if false, their bases are the
// identity.
cudaError_t ScaleFactors(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, bool keeps_zeros);
// Sets BasisMember::is_reached for the bases of a run that are accurate enough (basis_tolerance). `rotated` contains
// q^T A q for each basis q, where A is the matrix that ScaleFactors() has computed. is_previous: whether q is the
// previous basis. If so, an accurate basis is also marked as kept.
cudaError_t CompareBases(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, bool is_previous);
// Completes the new bases of a run in the batch's matrices: copies the previous basis if it is kept or if no new
// basis was computed. Also completes the root statuses. is_solved: whether an eigensolver has already written these
// statuses.
cudaError_t FinishBases(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, bool is_solved);
// If a previous basis is kept, replaces Q^T Q' in `rotations` by the identity.
cudaError_t FixRotations(cudaStream_t stream, const BasisArgs& args, const BasisRun& run);
// Replaces `rotations` by the matrices that convert the second moment. With basis_transport=rotate and
// kl_eigenvalues=ema, also converts the eigenvalues.
cudaError_t RotateMoments(cudaStream_t stream, const BasisArgs& args, const BasisRun& run);
// Stores the new bases of the selected blocks, and copies them to `bases`.
cudaError_t StoreBases(cudaStream_t stream, const BasisArgs& args, TaskSelection selection);
// Sets the eigenvalues of a run to the diagonal of Q'^T F Q' (kl_eigenvalues=basis). `products` contains F Q'.
cudaError_t TakeEigenvalues(cudaStream_t stream, const BasisArgs& args, const BasisRun& run);
// Writes `ticket`, the number of the step, to the root statuses of all selected blocks.
cudaError_t MarkBases(cudaStream_t stream, const BasisArgs& args, TaskSelection selection, int64_t ticket);

// basis_qr.cu
enum class ColumnOrder : int32_t { kDecreasing, kIncreasing };
// Writes to BasisTables::orders the order that sorts the columns of the bases of a run by their estimated eigenvalues.
// The estimates are the diagonal of q^T A q for each basis q, where A is the matrix that ScaleFactors() has computed.
// `q` and `product` are the buffers that contain q and A q.
cudaError_t OrderColumns(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, const void* q,
                         const void* product, ColumnOrder order);
// Copies the columns of each matrix in the order that OrderColumns() has computed.
cudaError_t PermuteColumns(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, const void* from, void* to);
// Replaces each matrix in the buffer `a` by the orthonormal factor of its QR decomposition. If BasisMember::is_reached
// is set, replaces the matrix by the matrix in the buffer `q` instead.
cudaError_t Orthogonalize(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, const void* q, void* a);
// Copies the results of orthogonal iteration, which are in the buffer `q`, to the batch's matrices. sorts: whether the
// columns are written in the order that OrderColumns() has computed. If so, a previous basis whose columns are not in
// this order is not kept.
cudaError_t FinishIteration(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, const void* q, bool sorts);

}  // namespace shampoo::cuda
