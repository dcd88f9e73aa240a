// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/backend/cuda/plugin/kernel_tables.h"

// The kernels for methods that work in eigenbases (soap, kl_shampoo). core/backend/cpu/basis_step.cc contains the same
// step for the CPU. basis_batch_step.cc shows the order of the kernels and the contents of the buffers. In this file,
// `first` and `second` are the buffers BatchTables::first and BatchTables::second. "The batch's matrices" are in the
// buffer BatchTables::matrices. With basis_order=after, the first gradient of a block initializes the block's factor
// matrices and bases (BasisWork::is_first). With first_step=skip, this gradient only initializes the block, and does
// not change the parameter.
namespace shampoo::cuda {

// Records of all blocks, and buffers in device memory (DeviceLayout::BasisLayout). Each batch reuses the buffers of the
// previous batch.
struct BasisTables {
  BasisWork* work;       // by block
  BasisMember* members;  // by factor matrix; see DeviceBlock::root_at
  double* sums;          // two vectors for each factor matrix of the batch
  int32_t* orders;       // one vector for each factor matrix of the batch; see OrderColumns()
  // Buffers of tensors (basis_batch_step.cc).
  void* third;
  void* fourth;
  void* moved;  // see tensor_products.h; empty if no block has more than two dims
  // Buffers of matrices. In a refresh, Q is the previous basis, and Q' is the new one.
  void* bases;  // Q; after StoreBases(): Q'
  // Before the refresh, `rotations` contains the matrices that LoadBases() writes. In the refresh, it first contains
  // intermediate results, then Q^T Q', which converts the filtered gradient to the new bases, and then the matrices of
  // RotateMoments(), which convert the second moment.
  void* rotations;
  void* products;  // intermediate results
  // The products q^T A q that CompareBases() reads, of a basis q and its scaled factor matrix A. Empty if
  // basis_tolerance is 0.
  void* rotated;
};

struct BasisArgs {
  Tables tables;
  BatchTables batch;
  BasisTables basis;
  Dtype computation;  // the computation dtype of the batch
};

// A run: consecutive blocks of a batch that have the same shape.
struct BasisRun {
  int64_t first;  // index of the first block in BatchTables::blocks
  int64_t count;  // number of blocks
  int32_t dim;    // the dim whose matrices are processed; -1: the matrices of all dims are processed
};

// Selects blocks by their tasks. computes: whether blocks with the task kCompute are selected. initializes: whether
// blocks with the task kInitialize are selected. Kernels treat a block that the step does not update as not selected.
struct TaskSelection {
  bool computes, initializes;

  constexpr bool Takes(RootTask task) const {
    return (computes && task == RootTask::kCompute) || (initializes && task == RootTask::kInitialize);
  }
};

// basis_begin.cu
// For each block that the step updates, increases the state gradient_count and computes BasisWork. With grafting, sets
// BlockWork::rule to kGraft if BasisWork::update is below start_preconditioning_step.
cudaError_t BeginBases(cudaStream_t stream, const BasisArgs& args);
// Copies Q from the state to `bases`. If `whitens` is true, also writes Q diag(s) to `rotations`, where s contains the
// inverse square roots of the eigenvalues. If the gradient initializes a block, writes the identity instead of
// Q diag(s).
cudaError_t LoadBases(cudaStream_t stream, const BasisArgs& args, bool whitens);
// For the selected blocks, writes both triangles of F / BasisWork::divisor to a buffer of matrices. For all other
// blocks, writes the identity.
cudaError_t LoadFactors(cudaStream_t stream, const BasisArgs& args, TaskSelection selection, void* to);
enum class RotatedState : int32_t { kFilteredGradient, kSecondMoment };
// LoadRotatedState() copies the filtered gradient or the second moment of the selected blocks from the state to a
// buffer of tensors. StoreRotatedState() copies them from a buffer of tensors to the state.
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
// initializes a block, the direction is 0, and this function also writes 0 to `second`. For other blocks, a later
// operation rotates the direction back into `second`; it may be omitted if the batch has no other blocks.
cudaError_t FilterInBases(cudaStream_t stream, const BasisArgs& args);
// Replaces the filtered gradient in `first` by the direction of the grafting method. For each tile, also computes the
// sum of the squares of this direction.
cudaError_t DivideByGrafting(cudaStream_t stream, const BasisArgs& args);

// basis_factor_kernels.cu
// With kl_eigenvalues=ema: computes the next eigenvalues of the run's dim from the rotated gradient and the current
// eigenvalues, and writes them to BasisTables::sums. d: the length of the dim, which is the number of its eigenvalues.
cudaError_t NextEigenvalues(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, int64_t d);
// Clears BlockWork::states_fit of each block whose factor matrix of the run's dim may overflow when the whitened
// gradient in the buffer `whitened` updates it. tiles: the number of tiles of one block.
cudaError_t CheckWhitened(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, int64_t tiles,
                          const void* whitened);
// With kl_init=auto: computes the eigenvalues of a block from the gradient in `first` if IsNegligible() is true for the
// mean eigenvalue of each of the block's factor matrices.
cudaError_t StartEigenvalues(cudaStream_t stream, const BasisArgs& args);
// Updates factor matrices with the gradient products in the batch's matrices. initializes: true selects the blocks
// that the gradient initializes, and false selects all other blocks.
cudaError_t UpdateBasisFactors(cudaStream_t stream, const BasisArgs& args, bool initializes);
// Stores the inverse square roots of the eigenvalues that NextEigenvalues() has computed in the state (ScalesOf()).
cudaError_t StoreEigenvalues(cudaStream_t stream, const BasisArgs& args);

// basis_refresh_kernels.cu
// Adds basis_epsilon to the diagonals of a run's factor matrices, which are in the batch's matrices, and scales these
// matrices by powers of 2. Initializes the BasisMember of each matrix. Replaces matrices that are not finite by the
// identity. If `keeps_zeros` is false, the bases of 1 x 1 matrices and of negligible matrices (IsNegligible) are the
// identity. If it is true, these matrices are treated like all other matrices.
cudaError_t ScaleFactors(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, bool keeps_zeros);
// Sets BasisMember::is_reached for the bases of a run that are accurate enough (basis_tolerance). `rotated` contains
// q^T A q for each basis q, where A is the matrix that ScaleFactors() has computed. is_previous: whether q is the
// previous basis. If so, also sets BasisMember::is_kept for each accurate basis.
cudaError_t CompareBases(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, bool is_previous);
// Completes the new bases of a run in the batch's matrices: copies the previous basis if it is kept, if the computation
// of the new basis has failed, or if the step does not update the block. Also completes the root statuses. is_solved:
// whether an eigensolver has already written these statuses.
cudaError_t FinishBases(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, bool is_solved);
// Replaces Q^T Q' in `rotations` by the identity for each basis of a run that is kept (BasisMember::is_kept).
cudaError_t FixRotations(cudaStream_t stream, const BasisArgs& args, const BasisRun& run);
// Replaces `rotations` by the matrices that convert the second moment. With basis_transport=rotate and
// kl_eigenvalues=ema, also converts the eigenvalues.
cudaError_t RotateMoments(cudaStream_t stream, const BasisArgs& args, const BasisRun& run);
// Copies the new bases of the selected blocks from the batch's matrices to the state and to `bases`.
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
// columns are written in the order that OrderColumns() has computed. If so, clears BasisMember::is_kept of each basis
// in `q` whose columns are not in this order.
cudaError_t FinishIteration(cudaStream_t stream, const BasisArgs& args, const BasisRun& run, const void* q, bool sorts);

}  // namespace shampoo::cuda
