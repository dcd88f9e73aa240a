// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "core/base/dtype.h"
#include "core/base/round_up.h"
#include "core/config/settings.h"

// Layout of the device memory in which the roots of a batch of matrices are computed. A batch is divided into chunks of
// matrices. The roots of one chunk after another are computed in this memory.
namespace shampoo::cuda {

// Matrices up to this size are decomposed by Jacobi's method (cusolverDn<t>syevjBatched), larger matrices by
// cusolverDnXsyevBatched. This limit was chosen without measurements.
inline constexpr int64_t kJacobiUpTo = 32;

// Chunks of at most kSingleUpToCount matrices of size kSingleFrom or more are decomposed one matrix at a time. Measured
// on an H100: a call that decomposes a batch of 2 matrices takes about as long as a call for a batch of 8. At size 256,
// it takes as long as 1.3 calls that decompose one matrix each, at size 512 as long as 5 such calls, and at size 2048
// as long as 9.
inline constexpr int64_t kSingleFrom = 512;
inline constexpr int64_t kSingleUpToCount = 5;

// The largest number of bytes that a chunk uses, unless a single matrix needs more.
inline constexpr int64_t kTargetRootWorkspace = int64_t{1} << 30;
// The largest number of matrices in a chunk. cuSOLVER limits batches to 2^31 elements. Batches of more than about 32000
// matrices of any size have been observed to fail.
inline constexpr int64_t kMaxRootsAtOnce = 16384;

// Kernels divide a matrix into pieces of several rows. A CTA (a thread block of CUDA) processes one piece.
inline constexpr int64_t kRootPieceElements = 8192;
inline int64_t RootPieceRows(int64_t n) { return std::max<int64_t>(1, kRootPieceElements / n); }
inline int64_t RootPieces(int64_t n) { return (n + RootPieceRows(n) - 1) / RootPieceRows(n); }

// Sizes of RootMember and RootPartial: the records of each matrix and of each piece of a matrix.
inline constexpr int64_t kRootMemberBytes = 104;
inline constexpr int64_t kRootPartialBytes = 24;

// Bytes after the arrays of a chunk, for the inputs and the status of a root that is retried alone (RetryInputs).
inline constexpr int64_t kRetryInputBytes = 256;

inline constexpr int kRootMatrices = 4;
inline constexpr int kRootVectors = 8;

// Offsets of the arrays in the memory of a chunk, in bytes. In each array, the matrices of a chunk are contiguous.
struct RootLayout {
  std::array<int64_t, kRootMatrices> matrices{};
  std::array<int64_t, kRootVectors> vectors{};
  int64_t signs = 0;     // one vector of 1 and -1 for the whole chunk, with which results are checked (ProbeSigns)
  int64_t members = 0;   // RootMember of each matrix
  int64_t partials = 0;  // RootPartial of each piece of each matrix
  int64_t info = 0;      // the result code of cuSOLVER for each matrix
  int64_t solver = 0;    // the memory that cuSOLVER requests
  int64_t bytes = 0;     // size of the memory
};

inline RootLayout MakeRootLayout(RootMethod method, int64_t n, int64_t count, Dtype root_dtype, int64_t solver_bytes) {
  constexpr int64_t kAlignment = 256;
  RootLayout layout;
  const auto take = [&layout](int64_t bytes) {
    const int64_t at = layout.bytes;
    layout.bytes += RoundUp(bytes, kAlignment);
    return at;
  };
  const auto element = static_cast<int64_t>(SizeOf(root_dtype));
  // An eigendecomposition needs two matrices. An iteration needs all four.
  const int matrices = method == RootMethod::kEigen ? 2 : kRootMatrices;
  for (int i = 0; i < matrices; ++i) layout.matrices[static_cast<size_t>(i)] = take(count * n * n * element);
  for (int64_t& vector : layout.vectors) vector = take(count * n * element);
  layout.signs = take(n * element);
  layout.members = take(count * kRootMemberBytes);
  layout.partials = take(count * RootPieces(n) * kRootPartialBytes);
  layout.info = take(count * static_cast<int64_t>(sizeof(int32_t)));
  layout.solver = take(solver_bytes);
  return layout;
}

// Returns an estimate of the memory that cuSOLVER requests. The exact number is known only on a device. RootSolver uses
// smaller chunks if cuSOLVER requests more than the estimate. For cuSOLVER 12.0 on an H100, the estimate is never too
// small, and at most a fifth too large (tests/cuda/gpu/probe.cc prints these numbers).
inline int64_t EstimatedSolverBytes(RootMethod method, int64_t n, int64_t count, Dtype root_dtype) {
  if (method != RootMethod::kEigen || n == 1) return 0;
  const auto element = static_cast<int64_t>(SizeOf(root_dtype));
  // The number of elements for one matrix with the solvers that do not use Jacobi's method.
  const int64_t of_one = 4 * n * n + 768 * std::min<int64_t>(n, 192) + 128 * n + 67584;
  if (n > kJacobiUpTo) return element * count * of_one;
  const int64_t of_jacobi = count * (n * n + 1152) + 4096;
  return element * std::max(of_jacobi, of_one);  // of_one: for a retry of one matrix
}

// Returns the bytes that suffice for a chunk of `chunk` matrices, and for a retry of one matrix (RetryMethod).
inline int64_t BytesOfChunk(RootMethod method, int64_t n, int64_t chunk, Dtype root_dtype, int64_t solver_bytes) {
  const int64_t of_chunk = method == RootMethod::kEigen ? solver_bytes : 0;
  const int64_t bytes = std::max({MakeRootLayout(method, n, chunk, root_dtype, of_chunk).bytes,
                                  MakeRootLayout(RootMethod::kEigen, n, 1, root_dtype, solver_bytes).bytes,
                                  MakeRootLayout(RootMethod::kNewton, n, 1, root_dtype, 0).bytes});
  return bytes + kRetryInputBytes;
}

inline int64_t EstimatedWorkspaceBytes(RootMethod method, int64_t n, int64_t chunk, Dtype root_dtype) {
  // If root_method=cans fails for a matrix, the eigensolver for one matrix computes the root.
  const bool is_cans = method == RootMethod::kCans;
  const int64_t solver_bytes =
      EstimatedSolverBytes(is_cans ? RootMethod::kEigen : method, n, is_cans ? 1 : chunk, root_dtype);
  return BytesOfChunk(method, n, chunk, root_dtype, solver_bytes);
}

// Returns the largest number of matrices, at least 1 and at most `count`, that a chunk may contain
// (kTargetRootWorkspace, kMaxRootsAtOnce).
inline int64_t LargestRootChunk(RootMethod method, int64_t n, int64_t count, Dtype root_dtype) {
  const int64_t max_count = std::min(kMaxRootsAtOnce, std::numeric_limits<int32_t>::max() / (n * n));
  int64_t fits = 1;
  for (int64_t beyond = std::max<int64_t>(1, std::min(count, max_count)) + 1; beyond - fits > 1;) {
    const int64_t middle = fits + (beyond - fits) / 2;
    (EstimatedWorkspaceBytes(method, n, middle, root_dtype) <= kTargetRootWorkspace ? fits : beyond) = middle;
  }
  return fits;
}

// Returns the number of matrices in a chunk if `count` matrices are divided into chunks of about the same size.
inline int64_t RootsPerChunk(RootMethod method, int64_t n, int64_t count, Dtype root_dtype) {
  const int64_t fits = LargestRootChunk(method, n, count, root_dtype);
  const int64_t chunks = std::max<int64_t>(1, (count + fits - 1) / fits);
  return std::max<int64_t>(1, (count + chunks - 1) / chunks);
}

// Returns the bytes of device memory that RootSolver needs for batches of up to `count` matrices. The part that
// cuSOLVER needs is estimated, because the exact number is not known without a device.
inline int64_t RootWorkspaceBytes(RootMethod method, int64_t n, int64_t count, Dtype root_dtype) {
  return EstimatedWorkspaceBytes(method, n, RootsPerChunk(method, n, count, root_dtype), root_dtype);
}

}  // namespace shampoo::cuda
