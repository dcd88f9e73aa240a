// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/root_solver.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/root_meter.h"
#include "core/backend/cuda/plugin/roots_chunk.h"
#include "core/rules/cans_scalars.h"
#include "core/rules/eigenvalue.h"

namespace shampoo::cuda {
namespace {

cudaDataType_t TypeOf(Dtype dtype) { return dtype == Dtype::kF64 ? CUDA_R_64F : CUDA_R_32F; }

constexpr cusolverEigMode_t kVectors = CUSOLVER_EIG_MODE_VECTOR;
// cuSOLVER reads one triangle of a matrix; both triangles are valid. cuSOLVER's matrices are column-major, so the
// upper triangle for cuSOLVER is the lower triangle of the row-major matrices of this library.
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
  chunk.largest_residual = spec.method == RootMethod::kCans ? LargestCansResidual(spec) : kLargestResidual;
  chunk.matrices =
      static_cast<char*>(batch.matrices) + first * batch.stride * static_cast<int64_t>(SizeOf(batch.computation));
  chunk.divisor = batch.divisor;
  if (batch.compared != nullptr) {
    chunk.compared = batch.compared + first;
  } else if (batch.may_be_diagonal != nullptr) {
    chunk.may_be_diagonal = batch.may_be_diagonal + first;
  }
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

// Device memory of RootSolver::Retry(): the inputs of a root and its status.
struct RetryInputs {
  double divisor;
  RootStatus status;
  const int32_t* flag_address;  // address of `flag` on the device
  int32_t flag;                 // RootSpec::may_be_diagonal of this root
  int32_t active;
};
static_assert(sizeof(RetryInputs) <= kRetryInputBytes);

// The largest residual at which a retry accepts a root that a Newton iteration has computed. If the residual is larger,
// the host computes the root in float64.
constexpr double kLargestRetryResidual = 1e-3;

// Returns whether a coupled Newton iteration can compute this root.
bool AllowsNewton(const RootSpec& spec) {
  const double root = -1 / spec.exponent;
  constexpr double kMaxRoot = 64;
  return !spec.pseudo_inverse && root >= 1 && root <= kMaxRoot && root == std::floor(root);
}

void SetNewton(RootSpec* spec) {
  const RootSpec defaults;
  spec->numerator = static_cast<int64_t>(-1 / spec->exponent);
  spec->denominator = 1;
  spec->tolerance = defaults.tolerance;
  spec->max_iterations = defaults.max_iterations;
}

// Makes the algorithm of cusolverDnXsyevBatched() independent of the number of matrices. By default, cuSOLVER may
// choose the algorithm by this number, so the last bits of a result may depend on the number. The cuSOLVER of CUDA 13.0
// declares CUSOLVER_ALG_1, but returns INVALID_VALUE because it has only the default algorithm. The default algorithm
// is then used.
Status ChooseBatchAlgorithm(cusolverDnParams_t params) {
#if CUDART_VERSION >= 13000
  const cusolverStatus_t status = cusolverDnSetAdvOptions(params, CUSOLVERDN_SYEVBATCHED, CUSOLVER_ALG_1);
  if (status == CUSOLVER_STATUS_INVALID_VALUE || status == CUSOLVER_STATUS_NOT_SUPPORTED) return Status();
  return StatusOf(status, "cusolverDnSetAdvOptions()");
#else
  (void)params;
  return Status();
#endif
}

}  // namespace

RootSolver::RootSolver() = default;

RootSolver::~RootSolver() {
  if (jacobi_ != nullptr) cusolverDnDestroySyevjInfo(jacobi_);
  if (params_ != nullptr) cusolverDnDestroyParams(params_);
}

Status RootSolver::Create(const std::vector<RootSizes>& sizes, const Handles& handles,
                          std::unique_ptr<RootSolver>* out) {
  std::unique_ptr<RootSolver> solver(new RootSolver);
  SHAMPOO_CUDA_TRY(cusolverDnCreateParams(&solver->params_));
  SHAMPOO_RETURN_IF_ERROR(ChooseBatchAlgorithm(solver->params_));
  SHAMPOO_CUDA_TRY(cusolverDnCreateSyevjInfo(&solver->jacobi_));
  SHAMPOO_RETURN_IF_ERROR(solver->counted_.Create());
  SHAMPOO_RETURN_IF_ERROR(solver->count_.Allocate(sizeof(int64_t)));
  for (const RootSizes& kind : sizes) SHAMPOO_RETURN_IF_ERROR(solver->Prepare(kind, handles));
  SHAMPOO_RETURN_IF_ERROR(solver->PrepareMeter(sizes, handles));
  *out = std::move(solver);
  return Status();
}

Status RootSolver::PrepareMeter(const std::vector<RootSizes>& sizes, const Handles& handles) {
  std::vector<RootMeter::Sizes> tracked;
  for (const RootSizes& kind : sizes) {
    if (!kind.tracked || kind.count == 0) continue;
    tracked.push_back({kind.n, std::min(kind.count, Find(kind.method, kind.n, kind.root_dtype)->chunk)});
  }
  return tracked.empty() ? Status() : RootMeter::Create(tracked, handles, &meter_);
}

int64_t RootSolver::WorkspaceBytes() const {
  return workspace_bytes_ + (meter_ != nullptr ? meter_->WorkspaceBytes() : 0);
}

// Determines the number of matrices in a chunk. This number is halved, at most down to 1, until cuSOLVER accepts a
// chunk of this size and the chunk needs no more than kTargetRootWorkspace bytes. If the batched solver does not accept
// even a single matrix, matrices are decomposed one by one.
Status RootSolver::Prepare(const RootSizes& sizes, const Handles& handles) {
  if (sizes.count == 0) return Status();
  RootSizes chunk = sizes;
  chunk.count = RootsPerChunk(sizes.method, sizes.n, sizes.count, sizes.root_dtype);
  if (const Kind* const known = Find(sizes.method, sizes.n, sizes.root_dtype)) {
    if (known->chunk >= chunk.count) return Status();
  }
  const int64_t largest_chunk = chunk.count;
  SolverMemory of_one;
  const bool has_single = MemoryOfOne(sizes, handles, &of_one).ok();
  bool has_batched = true;
  for (;;) {
    SolverMemory memory = of_one;
    Status status = has_batched ? MemoryOfBatches(chunk, handles, &memory) : Status();
    const int64_t bytes = BytesOfChunk(chunk.method, chunk.n, chunk.count, chunk.root_dtype, memory.device);
    if (chunk.count > 1 && (!status.ok() || bytes > kTargetRootWorkspace)) {
      chunk.count = (chunk.count + 1) / 2;
      continue;
    }
    if (!status.ok()) {
      if (!has_single) return status;
      has_batched = false;
      chunk.count = largest_chunk;
      continue;
    }
    workspace_bytes_ = std::max(workspace_bytes_, bytes);
    if (memory.host > static_cast<int64_t>(host_memory_.size())) host_memory_.resize(static_cast<size_t>(memory.host));
    kinds_.push_back({chunk.method, chunk.n, chunk.root_dtype, chunk.count, memory.device, has_batched, has_single});
    return Status();
  }
}

// Determines the memory for batches of up to sizes.count matrices. A smaller batch may need more memory than a larger
// one. Therefore, this function halves the count repeatedly, down to 1. It queries the memory for each count, and
// returns the maximum.
Status RootSolver::MemoryOfBatches(RootSizes sizes, const Handles& handles, SolverMemory* memory) const {
  if (sizes.method != RootMethod::kEigen || sizes.n == 1) return Status();
  for (;; sizes.count = (sizes.count + 1) / 2) {
    SHAMPOO_RETURN_IF_ERROR(MemoryOfBatch(sizes, handles, memory));
    if (sizes.count == 1) return Status();
  }
}

Status RootSolver::MemoryOfBatch(const RootSizes& sizes, const Handles& handles, SolverMemory* memory) const {
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
    memory->device = std::max(memory->device, elements * static_cast<int64_t>(SizeOf(sizes.root_dtype)));
    return Status();
  }
  const cudaDataType_t type = TypeOf(sizes.root_dtype);
  size_t device_bytes = 0;
  size_t host_bytes = 0;
  SHAMPOO_CUDA_TRY(cusolverDnXsyevBatched_bufferSize(handles.solver, params_, kVectors, kTriangle, sizes.n, type,
                                                     nullptr, sizes.n, type, nullptr, type, &device_bytes, &host_bytes,
                                                     sizes.count));
  memory->device = std::max(memory->device, static_cast<int64_t>(device_bytes));
  memory->host = std::max(memory->host, static_cast<int64_t>(host_bytes));
  return Status();
}

Status RootSolver::MemoryOfOne(const RootSizes& sizes, const Handles& handles, SolverMemory* memory) const {
  if ((sizes.method != RootMethod::kEigen && sizes.method != RootMethod::kCans) || sizes.n == 1) return Status();
  const cudaDataType_t type = TypeOf(sizes.root_dtype);
  size_t device_bytes = 0;
  size_t host_bytes = 0;
  SHAMPOO_CUDA_TRY(cusolverDnXsyevd_bufferSize(handles.solver, params_, kVectors, kTriangle, sizes.n, type, nullptr,
                                               sizes.n, type, nullptr, type, &device_bytes, &host_bytes));
  memory->device = static_cast<int64_t>(device_bytes);
  memory->host = static_cast<int64_t>(host_bytes);
  return Status();
}

const RootSolver::Kind* RootSolver::Find(RootMethod method, int64_t n, Dtype root_dtype) const {
  // Return the matching kind that has the largest chunks.
  const Kind* found = nullptr;
  for (const Kind& kind : kinds_) {
    const bool matches = kind.method == method && kind.n == n && kind.root_dtype == root_dtype;
    if (matches && (found == nullptr || kind.chunk > found->chunk)) found = &kind;
  }
  return found;
}

Status RootSolver::Compute(const RootBatch& batch, const DeviceSettings& group, const Handles& handles,
                           void* workspace) {
  return ComputeChunks(batch, MakeRootSpec(group, batch.root, 1, batch.n, batch.root_dtype), handles, workspace,
                       group.track_root_residuals ? meter_.get() : nullptr);
}

Status RootSolver::Compute(const RootBatch& batch, const RootSpec& spec, const Handles& handles, void* workspace) {
  return ComputeChunks(batch, spec, handles, workspace, nullptr);
}

// If meter is nullptr, does not compute residuals of the roots (RootMeter).
Status RootSolver::ComputeChunks(const RootBatch& batch, const RootSpec& spec, const Handles& handles, void* workspace,
                                 RootMeter* meter) {
  if (batch.count == 0) return Status();
  const Kind* const kind = Find(spec.method, batch.n, batch.root_dtype);
  if (kind == nullptr) return Internal("the root solver was not created for roots of size ", batch.n);
  const RootLayout layout = MakeRootLayout(kind->method, kind->n, kind->chunk, kind->root_dtype, kind->solver_bytes);
  char* const of_meter = static_cast<char*>(workspace) + workspace_bytes_;
  for (int64_t first = 0; first < batch.count; first += kind->chunk) {
    RootChunk chunk = ChunkOf(batch, spec, first, std::min(kind->chunk, batch.count - first));
    const RootBuffers buffers = Place(layout, workspace, &chunk);
    if (meter != nullptr) SHAMPOO_RETURN_IF_ERROR(meter->Begin(chunk, handles, of_meter));
    SHAMPOO_CUDA_TRY(InspectRoots(handles.stream, chunk));
    SHAMPOO_RETURN_IF_ERROR(RootsOfChunk(chunk, handles, buffers, *kind));
    if (meter != nullptr) SHAMPOO_RETURN_IF_ERROR(meter->Measure(chunk, handles, of_meter));
  }
  return Status();
}

Status RootSolver::ComputeBases(const RootBatch& batch, bool ascending, bool one_by_one, const Handles& handles,
                                void* workspace) {
  const Kind* const found = Find(RootMethod::kEigen, batch.n, batch.root_dtype);
  if (found == nullptr) return Internal("the root solver was not created for eigenbases of size ", batch.n);
  Kind kind = *found;
  kind.has_batched = kind.has_batched && !one_by_one;
  const RootLayout layout = MakeRootLayout(kind.method, kind.n, kind.chunk, kind.root_dtype, kind.solver_bytes);
  for (int64_t first = 0; first < batch.count; first += kind.chunk) {
    RootChunk chunk = ChunkOf(batch, RootSpec(), first, std::min(kind.chunk, batch.count - first));
    chunk.limit = std::numeric_limits<double>::infinity();  // no roots are computed, so none can exceed a limit
    const RootBuffers buffers = Place(layout, workspace, &chunk);
    SHAMPOO_RETURN_IF_ERROR(BasesOfChunk(chunk, ascending, handles, buffers, kind));
  }
  return Status();
}

Status RootSolver::Retry(const RootBatch& matrix, double divisor, RetryMethod how, const DeviceSettings& group,
                         const Handles& handles, void* workspace, RootStatus* out) {
  RootSpec spec = MakeRootSpec(group, matrix.root, 1, matrix.n, matrix.root_dtype);
  const Kind* const found = Find(spec.method, matrix.n, matrix.root_dtype);
  if (found == nullptr) return Internal("the root solver was not created for roots of size ", matrix.n);
  *out = {};
  out->failure = RootFailure::kSolver;
  const bool is_eigen = how == RetryMethod::kSingle;
  if (is_eigen ? !found->has_single : !AllowsNewton(spec)) return Status();
  Kind kind = *found;
  kind.has_batched = false;
  spec.method = is_eigen ? RootMethod::kEigen : RootMethod::kNewton;
  if (!is_eigen) SetNewton(&spec);
  auto* const inputs_at = static_cast<char*>(workspace) + workspace_bytes_ - kRetryInputBytes;
  const auto* const on_device = reinterpret_cast<const RetryInputs*>(inputs_at);
  RetryInputs inputs{};
  inputs.divisor = divisor;
  inputs.active = 1;
  inputs.flag_address = &on_device->flag;
  SHAMPOO_CUDA_TRY(cudaMemcpyAsync(inputs_at, &inputs, sizeof inputs, cudaMemcpyHostToDevice, handles.stream));
  RootBatch batch = matrix;
  batch.divisor = &on_device->divisor;
  batch.may_be_diagonal = &on_device->flag_address;
  batch.active = &on_device->active;
  batch.status = &reinterpret_cast<RetryInputs*>(inputs_at)->status;
  RootChunk chunk = ChunkOf(batch, spec, 0, 1);
  chunk.largest_residual = kLargestRetryResidual;
  const RootLayout layout = MakeRootLayout(spec.method, kind.n, 1, kind.root_dtype, is_eigen ? kind.solver_bytes : 0);
  const RootBuffers buffers = Place(layout, workspace, &chunk);
  const auto compute = [&]() -> Status {
    SHAMPOO_CUDA_TRY(InspectRoots(handles.stream, chunk));
    SHAMPOO_RETURN_IF_ERROR(RootsOfChunk(chunk, handles, buffers, kind));
    SHAMPOO_CUDA_TRY(cudaMemcpyAsync(out, batch.status, sizeof *out, cudaMemcpyDeviceToHost, handles.stream));
    return Status();
  };
  Status status = compute();
  // Wait also after an error: `inputs` and `out` must exist until the copies have ended.
  Status waited = StatusOf(cudaStreamSynchronize(handles.stream), "cudaStreamSynchronize");
  return status.ok() ? std::move(waited) : std::move(status);
}

Status RootSolver::RootsOfChunk(const RootChunk& chunk, const Handles& handles, const RootBuffers& buffers,
                                const Kind& kind) {
  switch (chunk.spec.method) {
    case RootMethod::kEigen:
      return EigenRoots(chunk, handles, buffers, kind);
    case RootMethod::kCans:
      return CansRoots(chunk, handles, buffers);
    default:
      return CoupledRoots(chunk, handles, buffers, Running());
  }
}

RunningCount RootSolver::Running() const {
  return {counted_.get(), reinterpret_cast<int64_t*>(count_.device()), reinterpret_cast<int64_t*>(count_.host())};
}

Status RootSolver::EigenRoots(const RootChunk& chunk, const Handles& handles, const RootBuffers& buffers,
                              const Kind& kind) {
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
  const GemmOptions transposed{.dtype = chunk.root_dtype, .transpose_a = true};
  SHAMPOO_RETURN_IF_ERROR(Decompose(chunk, handles, buffers, kind));
  SHAMPOO_CUDA_TRY(TransformEigenvalues(handles.stream, chunk, l, av, back, roots));
  SHAMPOO_CUDA_TRY(ScaleRows(handles.stream, chunk, roots, q));
  SHAMPOO_RETURN_IF_ERROR(
      LowerProductWithTransposed(handles.blas, transposed, n, n, matrix, {x, n, n * n}, chunk.count));
  SHAMPOO_CUDA_TRY(FinishRoot(handles.stream, chunk, roots, x));
  SHAMPOO_CUDA_TRY(DeliverRoots(handles.stream, chunk, roots, x));
  return Status();
}

// If a chunk has few, large matrices, they are decomposed one by one, which is faster than one batched call. Matrices
// are also decomposed one by one if the batched solver refuses the chunk. If the solver for one matrix also fails, the
// status of the root reports it, and the caller retries the root later. If the device has failed, the next launch
// returns an error.
Status RootSolver::SolveEigen(const RootChunk& chunk, const Handles& handles, const RootBuffers& buffers,
                              const Kind& kind) {
  const bool few = chunk.n >= kSingleFrom && chunk.count <= kSingleUpToCount;
  if (kind.has_batched && !(few && kind.has_single)) {
    if (SolveBatch(chunk, handles, buffers, kind.solver_bytes).ok()) return Status();
    // The call that failed may have enqueued work that overwrites the matrices.
    SHAMPOO_CUDA_TRY(LoadScaled(handles.stream, chunk, buffers.matrices[0], false));
  }
  const auto count = static_cast<size_t>(chunk.count);
  const size_t vector_bytes = static_cast<size_t>(chunk.n) * SizeOf(chunk.root_dtype);
  SHAMPOO_CUDA_TRY(cudaMemsetAsync(buffers.vectors[0], 0, count * vector_bytes, handles.stream));
  // In `info`, 0 means success. No element is 0 until a solver writes it.
  SHAMPOO_CUDA_TRY(cudaMemsetAsync(chunk.info, 1, count * sizeof(int32_t), handles.stream));
  for (int64_t i = 0; i < chunk.count && kind.has_single; ++i) {
    (void)SolveOne(chunk, i, handles, buffers, kind.solver_bytes);
  }
  return Status();
}

Status RootSolver::SolveOne(const RootChunk& chunk, int64_t member, const Handles& handles, const RootBuffers& buffers,
                            int64_t solver_bytes) {
  const cudaDataType_t type = TypeOf(chunk.root_dtype);
  const auto element = static_cast<int64_t>(SizeOf(chunk.root_dtype));
  char* const q = static_cast<char*>(buffers.matrices[0]) + member * chunk.n * chunk.n * element;
  char* const l = static_cast<char*>(buffers.vectors[0]) + member * chunk.n * element;
  SHAMPOO_CUDA_TRY(cusolverDnXsyevd(handles.solver, params_, kVectors, kTriangle, chunk.n, type, q, chunk.n, type, l,
                                    type, buffers.solver, static_cast<size_t>(solver_bytes), host_memory_.data(),
                                    host_memory_.size(), chunk.info + member));
  return Status();
}

Status RootSolver::SolveBatch(const RootChunk& chunk, const Handles& handles, const RootBuffers& buffers,
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
