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

// The data of one chunk (root_workspace.h), and the functions that compute the roots of the chunk. Each matrix of a
// chunk is called a member.
namespace shampoo::cuda {

// The data of a member while its root is computed. B, X, Y, Z and p are those of
// core/rules/coupled_scalars.h and core/rules/cans_scalars.h.
struct RootMember {
  double divisor;  // A is the matrix divided by this number, which is *RootChunk::divisor times TraceDivisor()
  double epsilon;  // RootSpec::epsilon for this matrix (ResolvedEpsilon)
  double shift;    // added to the diagonal of the scaled matrix A 2^-scale or, with method eigen, of A
  double error;    // max |Y - I|; method cans: |r| (SubtractProduct)
  double start;    // the first X is this multiple of I; method cans: X is this multiple of Z
  double factor;   // the computed root is multiplied by this factor before it is delivered
  double largest;  // the largest magnitude in the delivered root
  double z;        // the first Y is this multiple of B (StartCoupled); method cans: the norm by which Y is divided
  RootFailure failure;
  RootKind kind;
  int32_t scale;  // solvers receive the scaled matrix A 2^-scale
  // The fields from `diagonal` to `zero`, and `running`, are 1 if the statement in their comment holds, otherwise 0.
  int32_t diagonal;  // every element off the diagonal is 0
  int32_t shortcut;  // the root is computed from the diagonal
  int32_t replaced;  // solvers receive the identity instead of the matrix
  int32_t zero;      // RootSpec::relative_epsilon > 0 and IsNegligible(): the root is the identity by definition
  int32_t iterations;
  int32_t converged;  // as in RootOutcome
  int32_t running;    // a coupled iteration has neither converged nor stopped for another reason
};
static_assert(sizeof(RootMember) <= kRootMemberBytes);

// Partial results of a piece (some rows) of a matrix: either a sum of squares, or MagnitudeBits() of the largest
// magnitudes of one or two quantities. The quantities depend on the function that writes the result:
//
//                       first_magnitude               second_magnitude
//   InspectRoots        elements off the diagonal     elements on the diagonal
//   SumRows             row sums (fourth is false)    row sums (fourth is true)
//   RecordErrors        X - X64                       X64 (RootResiduals)
//   RecordResiduals     X^(1 / exponent) - A'         A' = A + shift I (RootResiduals)
//   all others          X, Y - I or X^p B - I         (none)
struct RootPartial {
  union {
    uint64_t first_magnitude;
    double sum;
  };
  uint64_t second_magnitude;
  // InspectRoots: the sum of the diagonal elements of the matrix in this piece, divided by n. RecordResiduals: the
  // largest magnitude in this piece of the factor matrix.
  double trace;
};
static_assert(sizeof(RootPartial) <= kRootPartialBytes);

// A chunk. A field that has the name of a field of RootBatch has the same meaning as there.
struct RootChunk {
  RootSpec spec;
  int64_t n;
  int64_t count;
  int64_t stride;
  int64_t rows;    // rows of a piece; the last piece of a matrix may have fewer
  int64_t pieces;  // number of pieces of a matrix
  Dtype computation;
  Dtype root_dtype;
  double limit;
  double largest_residual;  // limit above which CheckByVector, CheckByMatrix and SubtractProduct reject a root
  void* matrices;
  const double* divisor;                  // does not include the divisor of trace_scaling; RootMember::divisor does
  const int32_t* const* may_be_diagonal;  // see RootBatch; nullptr if `compared` is used
  const RootStatus* compared;             // see RootBatch
  const int32_t* active;
  RootStatus* status;
  RootMember* members;
  RootPartial* partials;  // by piece: `pieces` consecutive elements for each member
  void* signs;            // a fixed vector of 1 and -1, with which results are checked (ProbeSigns)
  int32_t* info;          // by member: the result code of cuSOLVER; 0 is success
};

// Working memory of a chunk. All matrices and vectors have the root dtype.
struct RootBuffers {
  std::array<void*, kRootMatrices> matrices{};
  std::array<void*, kRootVectors> vectors{};
  void* solver = nullptr;
};

// The memory and the event with which the host reads how many members of a chunk need more iterations.
struct RunningCount {
  cudaEvent_t event;
  int64_t* on_device;      // the device's address of host memory, to which the device writes
  const int64_t* on_host;  // the host's address of the same memory
};

// Functions that enqueue the kernels, grouped by source file. A matrix or vector argument is an array with one
// contiguous entry for each member of the chunk.

// roots_input.cu
// Inspects the matrices, and writes a RootMember for each of them. Also writes the vector of signs.
cudaError_t InspectRoots(cudaStream_t stream, const RootChunk& chunk);
// Writes A 2^-scale to `to`. If RootMember::replaced is set, writes I instead. with_shift: if true, adds
// RootMember::shift to the diagonal.
cudaError_t LoadScaled(cudaStream_t stream, const RootChunk& chunk, void* to, bool with_shift);

// roots_eigen.cu
// Writes (Q v)_i and l_i (Q v)_i to row i of `pair`. The rows of Q are the eigenvectors of the scaled matrix, l are its
// eigenvalues, v is the vector of signs, and qv is Q v.
cudaError_t PairProbe(cudaStream_t stream, const RootChunk& chunk, const void* qv, const void* l, void* pair);
// Checks the decomposition by applying it to v. Computes the eigenvalues of the square root of X from l, and writes
// them to `roots`. For a matrix with the diagonal shortcut (RootMember::shortcut), only writes the diagonal of X to
// `roots`. l, v and Q: as for PairProbe. av: the scaled matrix times v. back: Q^T times the result of PairProbe.
cudaError_t TransformEigenvalues(cudaStream_t stream, const RootChunk& chunk, const void* l, const void* av,
                                 const void* back, void* roots);
// Computes the diagonal of X for members with the diagonal shortcut.
cudaError_t DiagonalRoots(cudaStream_t stream, const RootChunk& chunk, void* roots);
// Multiplies row i of q by roots_i.
cudaError_t ScaleRows(cudaStream_t stream, const RootChunk& chunk, const void* roots, void* q);

// roots_bases.cu
// Checks the decomposition as TransformEigenvalues does. vectors: RootBuffers::vectors after RootSolver::Decompose().
cudaError_t CheckVectors(cudaStream_t stream, const RootChunk& chunk, const std::array<void*, kRootVectors>& vectors);
// Writes the statuses. For members that did not fail, also writes the eigenvectors to the columns of the matrices.
cudaError_t DeliverVectors(cudaStream_t stream, const RootChunk& chunk, const void* vectors, bool ascending);

// roots_coupled.cu
// Records the largest row sum of the magnitudes in `a`, for RecordNorm or StartCoupled. With method higher_order,
// StartCoupled needs two sums: one for the scaled matrix (fourth is false), and one for its fourth power (fourth is
// true).
cudaError_t SumRows(cudaStream_t stream, const RootChunk& chunk, const void* a, bool fourth);
// Computes the squared Frobenius norm of y + shift I, which StartCoupled uses with method newton.
cudaError_t SumSquares(cudaStream_t stream, const RootChunk& chunk, const void* y);
// Computes `z` and `start` of each member (with method higher_order, also `shift`), and y <- z B for B = y + shift I.
cudaError_t StartCoupled(cudaStream_t stream, const RootChunk& chunk, void* y);
// Computes t <- -y multiplier / divisor + diagonal I for running members. For all other members, computes t <- I, so
// that their X and Y do not change.
cudaError_t MakeFactor(cudaStream_t stream, const RootChunk& chunk, const void* y, void* t, double multiplier,
                       double divisor, double diagonal);
// Computes s <- s + t + diagonal I for running members, and s <- I for all other members.
cudaError_t AddTerm(cudaStream_t stream, const RootChunk& chunk, const void* t, void* s, double diagonal);
// Computes x <- start t, where start is RootMember::start.
cudaError_t FirstRoot(cudaStream_t stream, const RootChunk& chunk, const void* t, void* x);
// Ends iteration `number`, counted from 1: copies the lower triangle of y to the upper one, and decides which members
// continue.
cudaError_t EndIteration(cudaStream_t stream, const RootChunk& chunk, void* y, int64_t number);
// Writes the number of running members to host memory. count: RunningCount::on_device.
cudaError_t CountRunning(cudaStream_t stream, const RootChunk& chunk, int64_t* count);

// roots_cans.cu
// Records the norms by which DivideByNorm divides, and the factors by which Symmetrize multiplies. A pass applies the
// steps kCansSteps once; a root takes CansPasses() passes.
cudaError_t RecordNorm(cudaStream_t stream, const RootChunk& chunk, const void* y, bool is_last_pass);
// Computes y <- y / norm and p <- y.
cudaError_t DivideByNorm(cudaStream_t stream, const RootChunk& chunk, void* y, void* p);
// Computes p <- a p + b I and, if z is not nullptr, z <- p.
cudaError_t CansFactor(cudaStream_t stream, const RootChunk& chunk, void* p, void* z, double a, double b);
// Computes x <- (z + z^T) / 2. with_factor: if true, also multiplies x by RootMember::start.
cudaError_t Symmetrize(cudaStream_t stream, const RootChunk& chunk, const void* z, void* x, bool with_factor);
// Computes r <- v - w, where w is X^(power/2) B X^(power/2) v and power is -1 / exponent. v is the old r or, if
// is_first is true, the vector of signs. If is_last is true, a member fails if |r| / |v| is above the chunk's
// largest_residual.
cudaError_t SubtractProduct(cudaStream_t stream, const RootChunk& chunk, void* r, const void* w, bool is_first,
                            bool is_last);

// roots_output.cu
// Copies the lower triangle of x to the upper one, and computes RootMember::largest. x: the roots of members without
// the diagonal shortcut. roots: the diagonals of the roots of members with the diagonal shortcut.
cudaError_t FinishRoot(cudaStream_t stream, const RootChunk& chunk, const void* roots, void* x);
// Check the result of an iteration. CheckByVector: a member fails unless `vector` is close to the vector of signs.
// CheckByMatrix: a member fails unless `matrix` is close to I.
cudaError_t CheckByVector(cudaStream_t stream, const RootChunk& chunk, const void* vector);
cudaError_t CheckByMatrix(cudaStream_t stream, const RootChunk& chunk, const void* matrix);
cudaError_t WriteStatuses(cudaStream_t stream, const RootChunk& chunk);
// Writes the statuses of all members, and the roots of the members that did not fail.
cudaError_t DeliverRoots(cudaStream_t stream, const RootChunk& chunk, const void* roots, const void* x);

// roots_coupled.cc
// The number of iterations after which the host queries again whether any member is still running.
inline constexpr int64_t kIterationsPerPoll = 8;
// Returns a number of iterations after which every eigenvalue of Y that float64 can represent has converged to 1.
// root: p (see RootMember). order: the order of the iteration, which is 2 for method newton.
int64_t MaxUsefulIterations(int64_t root, int64_t order);
// Computes the roots of a chunk with a coupled iteration.
Status CoupledRoots(const RootChunk& chunk, const Handles& handles, const RootBuffers& buffers,
                    const RunningCount& running);

// roots_cans.cc
// Computes the roots of a chunk by method cans.
Status CansRoots(const RootChunk& chunk, const Handles& handles, const RootBuffers& buffers);

}  // namespace shampoo::cuda
