// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Eigendecompositions of the matrices of a chunk (root_workspace.h). Methods soap and kl_shampoo use the eigenvectors.
#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/roots_chunk.h"

namespace shampoo::cuda {

Status RootSolver::Decompose(const RootChunk& chunk, const Handles& handles, const RootBuffers& buffers,
                             const Kind& kind) {
  const int64_t n = chunk.n;
  const auto& [l, roots, av, qv, pair, second_of_pair, back, second_of_back] = buffers.vectors;
  void* const q = buffers.matrices[0];
  const GemmInput matrix{q, n, n * n};
  const GemmOptions plain{.dtype = chunk.root_dtype};
  const GemmOptions transposed{.dtype = chunk.root_dtype, .transpose_a = true};
  const GemmInput signs{chunk.signs, 1, 0};
  SHAMPOO_CUDA_TRY(LoadScaled(handles.stream, chunk, q, false));
  SHAMPOO_RETURN_IF_ERROR(Gemm(handles.blas, plain, n, 1, n, matrix, signs, {av, 1, n}, chunk.count));
  SHAMPOO_RETURN_IF_ERROR(SolveEigen(chunk, handles, buffers, kind));
  // The rows of q are now the eigenvectors, and l contains the eigenvalues. v is the vector of signs, and av is the
  // matrix times v. Compute q^T q v and q^T diag(l) q v. To check the decomposition, the callers compare the first
  // result with v and the second with av (DecompositionFits).
  SHAMPOO_RETURN_IF_ERROR(Gemm(handles.blas, plain, n, 1, n, matrix, signs, {qv, 1, n}, chunk.count));
  SHAMPOO_CUDA_TRY(PairProbe(handles.stream, chunk, qv, l, pair));
  return Gemm(handles.blas, transposed, n, 2, n, matrix, {pair, 2, 2 * n}, {back, 2, 2 * n}, chunk.count);
}

Status RootSolver::BasesOfChunk(const RootChunk& chunk, bool ascending, const Handles& handles,
                                const RootBuffers& buffers, const Kind& kind) {
  SHAMPOO_CUDA_TRY(InspectRoots(handles.stream, chunk));
  SHAMPOO_RETURN_IF_ERROR(Decompose(chunk, handles, buffers, kind));
  SHAMPOO_CUDA_TRY(CheckVectors(handles.stream, chunk, buffers.vectors));
  SHAMPOO_CUDA_TRY(DeliverVectors(handles.stream, chunk, buffers.matrices[0], ascending));
  return Status();
}

}  // namespace shampoo::cuda
