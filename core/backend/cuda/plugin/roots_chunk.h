// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "core/backend/cuda/plugin/gemm.h"
#include "core/backend/cuda/plugin/root_solver.h"
#include "core/backend/cuda/root_workspace.h"
#include "core/roots/root.h"

// Roots of the matrices of one chunk: what their kernels and their calls of libraries share.
namespace shampoo::cuda {

// What is known of a matrix while its root is computed.
struct RootMember {
  double epsilon;  // as added to the eigenvalues of the matrix itself
  double shift;    // coupled iterations: was added to the diagonal of the scaled matrix
  double error;    // max |Y - I|
  double start;    // the first X is a multiple of I
  double factor;   // of the scaled matrix's root
  double largest;  // magnitude in the root that is delivered
  double z;        // the first Y is a multiple of the matrix
  RootFailure failure;
  RootKind kind;
  int32_t scale;     // solvers see A 2^-scale
  int32_t diagonal;  // as in MatrixFacts
  int32_t shortcut;  // its root is that of the diagonal
  int32_t replaced;  // solvers see the identity
  int32_t zero;      // with a relative epsilon: a negligible matrix, whose root is the identity
  int32_t iterations;
  int32_t converged;
  int32_t running;
};
static_assert(sizeof(RootMember) <= kRootMemberBytes);

// Of a piece of a matrix.
struct RootPartial {
  union {
    uint64_t largest;  // MagnitudeBits
    double sum;
  };
  uint64_t second;
  double trace;
};
static_assert(sizeof(RootPartial) <= kRootPartialBytes);

struct RootChunk {
  RootSpec spec;
  int64_t n;
  int64_t count;
  int64_t stride;
  int64_t rows;  // of a piece
  int64_t pieces;
  Dtype computation;
  Dtype root_dtype;
  double limit;
  void* matrices;
  const double* divisor;
  const int32_t* const* may_be_diagonal;
  const int32_t* active;
  RootStatus* status;
  RootMember* members;
  RootPartial* partials;
  void* signs;
  int32_t* info;
};

// Memory of a chunk, all of it in the root dtype.
struct RootBuffers {
  std::array<void*, kRootMatrices> matrices{};
  std::array<void*, kRootVectors> vectors{};
  void* solver = nullptr;
};

// The kernels, in their order. Matrices and vectors are those of all members, one behind another.

// roots_input.cu
// What is in the matrices: RootMember as it begins. Signs are written, too.
cudaError_t InspectRoots(cudaStream_t stream, const RootChunk& chunk);
// to <- A 2^-scale, or I; with the shift of the member on the diagonal.
cudaError_t LoadScaled(cudaStream_t stream, const RootChunk& chunk, void* to, bool with_shift);

// roots_eigen.cu
// pair <- rows of (q v)_i, l_i (q v)_i.
cudaError_t PairProbe(cudaStream_t stream, const RootChunk& chunk, const void* qv, const void* l, void* pair);
// Judges the decomposition by what it did to the signs (av is A v, back the product of Q^T and pair), and makes
// eigenvalues of a root's half (shortcut: elements of the root) of l.
cudaError_t TransformEigenvalues(cudaStream_t stream, const RootChunk& chunk, const void* l, const void* av,
                                 const void* back, void* roots);
// Row i of q times roots_i.
cudaError_t ScaleRows(cudaStream_t stream, const RootChunk& chunk, const void* roots, void* q);

// roots_coupled.cu
// The largest row sum of magnitudes, for StartCoupled: of A, and then of A^4.
cudaError_t SumRows(cudaStream_t stream, const RootChunk& chunk, const void* a, bool fourth);
cudaError_t SumSquares(cudaStream_t stream, const RootChunk& chunk, const void* y);
// Shift and multiples; y <- z (y + shift I).
cudaError_t StartCoupled(cudaStream_t stream, const RootChunk& chunk, void* y);
// t <- -y multiplier / divisor + diagonal I; like all that follow it for running members, and I for the others, whose X
// and Y therefore stay as they are.
cudaError_t MakeFactor(cudaStream_t stream, const RootChunk& chunk, const void* y, void* t, double multiplier,
                       double divisor, double diagonal);
// s <- s + t + diagonal I
cudaError_t AddTerm(cudaStream_t stream, const RootChunk& chunk, const void* t, void* s, double diagonal);
// x <- start t
cudaError_t FirstRoot(cudaStream_t stream, const RootChunk& chunk, const void* t, void* x);
// The upper triangle as the lower; whether members go on. number: of the iteration that is over.
cudaError_t EndIteration(cudaStream_t stream, const RootChunk& chunk, void* y, int64_t number);

// roots_output.cu
// The upper triangle of the root as the lower, and what is largest in it.
cudaError_t FinishRoot(cudaStream_t stream, const RootChunk& chunk, const void* roots, void* x);
// Judges the result of an iteration by the distance of `vector` from the signs, or of `matrix` from I.
cudaError_t CheckByVector(cudaStream_t stream, const RootChunk& chunk, const void* vector);
cudaError_t CheckByMatrix(cudaStream_t stream, const RootChunk& chunk, const void* matrix);
// Statuses, and the roots where there is no failure.
cudaError_t DeliverRoots(cudaStream_t stream, const RootChunk& chunk, const void* roots, const void* x);

// roots_coupled.cc
// After this many iterations no eigenvalue that float64 can hold is still on its way to 1.
int64_t MaxUsefulIterations(int64_t root, int64_t order);
Status CoupledRoots(const RootChunk& chunk, const Handles& handles, const RootBuffers& buffers);

}  // namespace shampoo::cuda
