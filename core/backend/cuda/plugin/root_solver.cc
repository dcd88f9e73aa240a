// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/root_solver.h"

#include <algorithm>

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/roots_chunk.h"

namespace shampoo::cuda {
namespace {

cudaDataType_t TypeOf(Dtype dtype) { return dtype == Dtype::kF64 ? CUDA_R_64F : CUDA_R_32F; }

constexpr cusolverEigMode_t kVectors = CUSOLVER_EIG_MODE_VECTOR;
// Both triangles are valid. The lower triangle of a row-major matrix is the upper triangle for cuSOLVER.
constexpr cublasFillMode_t kTriangle = CUBLAS_FILL_MODE_UPPER;

RootChunk ChunkOf(const RootBatch& batch, const RootSpec& spec, int64_t first, int64_t count) {
  RootChunk chunk{};
  chunk.spec = spec;
  chunk.n = batch.n;
  chunk.count = count;
  chunk.stride = batch.stride;
  chunk.rows = RootPieceRows(batch.n);
  chunk.pieces = RootPieces(batch.n);
  chunk.computation = batch.computation;
  chunk.root_dtype = batch.root_dtype;
  chunk.limit = batch.limit;
  chunk.matrices =
      static_cast<char*>(batch.matrices) + first * batch.stride * static_cast<int64_t>(SizeOf(batch.computation));
  chunk.divisor = batch.divisor;
  chunk.may_be_diagonal = batch.may_be_diagonal + first;
  chunk.active = batch.active;
  chunk.status = batch.status + first;
  return chunk;
}

RootBuffers Place(const RootLayout& layout, void* workspace, RootChunk* chunk) {
  char* const base = static_cast<char*>(workspace);
  RootBuffers buffers;
  for (size_t i = 0; i < layout.matrices.size(); ++i) buffers.matrices[i] = base + layout.matrices[i];
  for (size_t i = 0; i < layout.vectors.size(); ++i) buffers.vectors[i] = base + layout.vectors[i];
  buffers.solver = base + layout.solver;
  chunk->signs = base + layout.signs;
  chunk->members = reinterpret_cast<RootMember*>(base + layout.members);
  chunk->partials = reinterpret_cast<RootPartial*>(base + layout.partials);
  chunk->info = reinterpret_cast<int32_t*>(base + layout.info);
  return buffers;
}

}  // namespace

RootSolver::~RootSolver() {
  if (jacobi_ != nullptr) cusolverDnDestroySyevjInfo(jacobi_);
  if (params_ != nullptr) cusolverDnDestroyParams(params_);
}

Status RootSolver::Create(const std::vector<RootSizes>& sizes, const Handles& handles,
                          std::unique_ptr<RootSolver>* out) {
  std::unique_ptr<RootSolver> solver(new RootSolver);
  SHAMPOO_CUDA_TRY(cusolverDnCreateParams(&solver->params_));
#if CUDART_VERSION >= 13000
  // The default may use another algorithm for another number of matrices. The speed of this one has not been measured.
  SHAMPOO_CUDA_TRY(cusolverDnSetAdvOptions(solver->params_, CUSOLVERDN_SYEVBATCHED, CUSOLVER_ALG_1));
#endif
  SHAMPOO_CUDA_TRY(cusolverDnCreateSyevjInfo(&solver->jacobi_));
  for (const RootSizes& kind : sizes) SHAMPOO_RETURN_IF_ERROR(solver->Prepare(kind, handles));
  *out = std::move(solver);
  return Status();
}

Status RootSolver::Prepare(const RootSizes& sizes, const Handles& handles) {
  if (sizes.count == 0) return Status();
  RootSizes chunk = sizes;
  chunk.count = RootChunkCount(sizes.method, sizes.n, sizes.count, sizes.root_dtype);
  if (const Kind* const known = Find(sizes.method, sizes.n, sizes.root_dtype)) {
    if (known->chunk >= chunk.count) return Status();
  }
  for (;; chunk.count = (chunk.count + 1) / 2) {
    int64_t device = 0;
    int64_t host = 0;
    // Query smaller chunks, too: they may need more memory than larger ones.
    for (RootSizes part = chunk;; part.count = (part.count + 1) / 2) {
      SHAMPOO_RETURN_IF_ERROR(SolverBytes(part, handles, &device, &host));
      if (part.count == 1) break;
    }
    const int64_t bytes = MakeRootLayout(chunk.method, chunk.n, chunk.count, chunk.root_dtype, device).bytes;
    if (bytes > kTargetRootWorkspace && chunk.count > 1) continue;
    workspace_bytes_ = std::max(workspace_bytes_, bytes);
    if (host > static_cast<int64_t>(host_memory_.size())) host_memory_.resize(static_cast<size_t>(host));
    kinds_.push_back({chunk.method, chunk.n, chunk.root_dtype, chunk.count, device});
    return Status();
  }
}

Status RootSolver::SolverBytes(const RootSizes& sizes, const Handles& handles, int64_t* device, int64_t* host) const {
  if (sizes.method != RootMethod::kEigen || sizes.n == 1) return Status();
  if (sizes.n <= kJacobiUpTo) {
    const auto n = static_cast<int>(sizes.n);
    const auto count = static_cast<int>(sizes.count);
    int elements = 0;
    if (sizes.root_dtype == Dtype::kF64) {
      SHAMPOO_CUDA_TRY(cusolverDnDsyevjBatched_bufferSize(handles.solver, kVectors, kTriangle, n, nullptr, n, nullptr,
                                                          &elements, jacobi_, count));
    } else {
      SHAMPOO_CUDA_TRY(cusolverDnSsyevjBatched_bufferSize(handles.solver, kVectors, kTriangle, n, nullptr, n, nullptr,
                                                          &elements, jacobi_, count));
    }
    *device = std::max(*device, elements * static_cast<int64_t>(SizeOf(sizes.root_dtype)));
    return Status();
  }
  const cudaDataType_t type = TypeOf(sizes.root_dtype);
  size_t device_bytes = 0;
  size_t host_bytes = 0;
  SHAMPOO_CUDA_TRY(cusolverDnXsyevBatched_bufferSize(handles.solver, params_, kVectors, kTriangle, sizes.n, type,
                                                     nullptr, sizes.n, type, nullptr, type, &device_bytes, &host_bytes,
                                                     sizes.count));
  *device = std::max(*device, static_cast<int64_t>(device_bytes));
  *host = std::max(*host, static_cast<int64_t>(host_bytes));
  return Status();
}

const RootSolver::Kind* RootSolver::Find(RootMethod method, int64_t n, Dtype root_dtype) const {
  // Return the kind with the largest chunks.
  const Kind* found = nullptr;
  for (const Kind& kind : kinds_) {
    const bool matches = kind.method == method && kind.n == n && kind.root_dtype == root_dtype;
    if (matches && (found == nullptr || kind.chunk > found->chunk)) found = &kind;
  }
  return found;
}

Status RootSolver::Compute(const RootBatch& batch, const DeviceSettings& group, const Handles& handles,
                           void* workspace) {
  if (batch.count == 0) return Status();
  const RootSpec spec = MakeRootSpec(group, batch.root, 1, batch.n, batch.root_dtype);
  const Kind* const kind = Find(spec.method, batch.n, batch.root_dtype);
  if (kind == nullptr) return Internal("the root solver was not created for roots of order ", batch.n);
  const RootLayout layout = MakeRootLayout(kind->method, kind->n, kind->chunk, kind->root_dtype, kind->solver_bytes);
  for (int64_t first = 0; first < batch.count; first += kind->chunk) {
    RootChunk chunk = ChunkOf(batch, spec, first, std::min(kind->chunk, batch.count - first));
    const RootBuffers buffers = Place(layout, workspace, &chunk);
    SHAMPOO_CUDA_TRY(InspectRoots(handles.stream, chunk));
    SHAMPOO_RETURN_IF_ERROR(spec.method == RootMethod::kEigen ? EigenRoots(chunk, handles, buffers, kind->solver_bytes)
                                                              : CoupledRoots(chunk, handles, buffers));
  }
  return Status();
}

Status RootSolver::EigenRoots(const RootChunk& chunk, const Handles& handles, const RootBuffers& buffers,
                              int64_t solver_bytes) {
  const int64_t n = chunk.n;
  const auto& [l, roots, av, qv, pair, second_of_pair, back, second_of_back] = buffers.vectors;
  if (n == 1) {
    // A matrix of one element needs no decomposition.
    SHAMPOO_CUDA_TRY(TransformEigenvalues(handles.stream, chunk, l, av, back, roots));
    SHAMPOO_CUDA_TRY(FinishRoot(handles.stream, chunk, roots, nullptr));
    SHAMPOO_CUDA_TRY(DeliverRoots(handles.stream, chunk, roots, nullptr));
    return Status();
  }
  void* const q = buffers.matrices[0];
  void* const x = buffers.matrices[1];
  const GemmInput matrix{q, n, n * n};
  const GemmOptions plain{.dtype = chunk.root_dtype};
  const GemmOptions transposed{.dtype = chunk.root_dtype, .transpose_a = true};
  const GemmInput signs{chunk.signs, 1, 0};
  SHAMPOO_CUDA_TRY(LoadScaled(handles.stream, chunk, q, false));
  SHAMPOO_RETURN_IF_ERROR(Gemm(handles.blas, plain, n, 1, n, matrix, signs, {av, 1, n}, chunk.count));
  SHAMPOO_RETURN_IF_ERROR(SolveEigen(chunk, handles, buffers, solver_bytes));
  // Apply the decomposition to the signs. The eigenvectors are the rows of q.
  SHAMPOO_RETURN_IF_ERROR(Gemm(handles.blas, plain, n, 1, n, matrix, signs, {qv, 1, n}, chunk.count));
  SHAMPOO_CUDA_TRY(PairProbe(handles.stream, chunk, qv, l, pair));
  SHAMPOO_RETURN_IF_ERROR(
      Gemm(handles.blas, transposed, n, 2, n, matrix, {pair, 2, 2 * n}, {back, 2, 2 * n}, chunk.count));
  SHAMPOO_CUDA_TRY(TransformEigenvalues(handles.stream, chunk, l, av, back, roots));
  SHAMPOO_CUDA_TRY(ScaleRows(handles.stream, chunk, roots, q));
  SHAMPOO_RETURN_IF_ERROR(Gemm(handles.blas, transposed, n, n, n, matrix, matrix, {x, n, n * n}, chunk.count));
  SHAMPOO_CUDA_TRY(FinishRoot(handles.stream, chunk, roots, x));
  SHAMPOO_CUDA_TRY(DeliverRoots(handles.stream, chunk, roots, x));
  return Status();
}

Status RootSolver::SolveEigen(const RootChunk& chunk, const Handles& handles, const RootBuffers& buffers,
                              int64_t solver_bytes) {
  void* const q = buffers.matrices[0];
  void* const l = buffers.vectors[0];
  if (chunk.n > kJacobiUpTo) {
    const cudaDataType_t type = TypeOf(chunk.root_dtype);
    SHAMPOO_CUDA_TRY(cusolverDnXsyevBatched(handles.solver, params_, kVectors, kTriangle, chunk.n, type, q, chunk.n,
                                            type, l, type, buffers.solver, static_cast<size_t>(solver_bytes),
                                            host_memory_.data(), host_memory_.size(), chunk.info, chunk.count));
    return Status();
  }
  const auto n = static_cast<int>(chunk.n);
  const auto count = static_cast<int>(chunk.count);
  const auto elements = static_cast<int>(solver_bytes / static_cast<int64_t>(SizeOf(chunk.root_dtype)));
  if (chunk.root_dtype == Dtype::kF64) {
    SHAMPOO_CUDA_TRY(cusolverDnDsyevjBatched(handles.solver, kVectors, kTriangle, n, static_cast<double*>(q), n,
                                             static_cast<double*>(l), static_cast<double*>(buffers.solver), elements,
                                             chunk.info, jacobi_, count));
  } else {
    SHAMPOO_CUDA_TRY(cusolverDnSsyevjBatched(handles.solver, kVectors, kTriangle, n, static_cast<float*>(q), n,
                                             static_cast<float*>(l), static_cast<float*>(buffers.solver), elements,
                                             chunk.info, jacobi_, count));
  }
  return Status();
}

}  // namespace shampoo::cuda
