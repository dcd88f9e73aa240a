// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "tests/cuda/fake/dense.h"
#include "tests/cuda/fake/state.h"

namespace shampoo::cuda_fake {
namespace {

struct EigenBatch {
  bool vectors, lower, sorted;
  int64_t n, lda, count;
  void* a;
  void* w;
  int* info;
  void* workspace;
  size_t workspace_bytes;
  bool one_algorithm;  // the algorithm does not depend on whether the batch has more than one matrix
  int device = 0;
  bool rounds_differently = false;  // change the last bit of eigenvalues, as if another algorithm computed them
};

// Replaces the vectors by another orthonormal basis: rotates vectors 0 and 1 in their plane, then vectors 2
// and 3, and so on.
template <typename Real>
void TurnVectors(int64_t n, Real* a, int64_t lda) {
  const Real c = static_cast<Real>(0.6);
  const Real s = static_cast<Real>(0.8);
  for (int64_t j = 0; j + 1 < n; j += 2) {
    for (int64_t i = 0; i < n; ++i) {
      Real& left = a[j * lda + i];
      Real& right = a[(j + 1) * lda + i];
      const Real turned = c * left + s * right;
      right = c * right - s * left;
      left = turned;
    }
  }
}

template <typename Real>
void SolveOne(const EigenBatch& batch, int64_t matrix, const PlannedEigenFault* fault) {
  const int64_t n = batch.n;
  Real* const a = static_cast<Real*>(batch.a) + matrix * batch.lda * n;
  Real* const w = static_cast<Real*>(batch.w) + matrix * n;
  const auto spoil = [&] {
    for (int64_t j = 0; j < n; ++j) std::fill_n(a + j * batch.lda, n, std::numeric_limits<Real>::quiet_NaN());
    std::fill_n(w, n, std::numeric_limits<Real>::quiet_NaN());
  };
  batch.info[matrix] = 0;
  if (!IsFiniteTriangle(batch.lower, n, a, batch.lda)) {
    ++TheState().counts[FAKE_CUDA_NONFINITE_EIGENPROBLEMS];
    spoil();  // info still reports success
    return;
  }
  const int info = Decompose(batch.vectors, batch.lower, n, a, batch.lda, w);
  if (info != 0) batch.info[matrix] = info;
  if (batch.rounds_differently) {
    for (int64_t j = 0; j < n; ++j) w[j] = std::nextafter(w[j], std::numeric_limits<Real>::infinity());
  }
  if (!batch.sorted) {
    for (int64_t j = 0; j < n / 2; ++j) {
      std::swap(w[j], w[n - 1 - j]);
      std::swap_ranges(a + j * batch.lda, a + j * batch.lda + n, a + (n - 1 - j) * batch.lda);
    }
  }
  if (fault == nullptr || (fault->matrix >= 0 && fault->matrix != matrix)) return;
  switch (fault->how) {
    case FAKE_CUDA_EIGEN_INFO:
      spoil();
      batch.info[matrix] = fault->info;
      break;
    case FAKE_CUDA_EIGEN_NAN:
      spoil();
      break;
    case FAKE_CUDA_EIGEN_WRONG_VECTORS:
      if (batch.vectors) TurnVectors(n, a, batch.lda);
      break;
    default:
      for (int64_t j = 0; j < n; ++j) w[j] = w[j] * 2 + 1;
  }
}

template <typename Real>
void SolveBatch(const EigenBatch& batch) {
  State& state = TheState();
  const auto count = static_cast<size_t>(batch.count);
  const auto n = static_cast<size_t>(batch.n);
  const auto last = (static_cast<size_t>(batch.lda) * (n * count - 1) + n) * sizeof(Real);
  if (!state.Check(batch.device, batch.a, last, "cuSOLVER, A") ||
      !state.Check(batch.device, batch.w, n * count * sizeof(Real), "cuSOLVER, W") ||
      !state.Check(batch.device, batch.info, count * sizeof(int), "cuSOLVER, info") ||
      !state.Check(batch.device, batch.workspace, batch.workspace_bytes, "cuSOLVER workspace")) {
    return;
  }
  std::memset(batch.workspace, 0xff, std::min<size_t>(batch.workspace_bytes, 65536));
  PlannedEigenFault fault{};
  bool faulty = false;
  for (size_t i = 0; i < state.planned_eigen.size(); ++i) {
    if (faulty || --state.planned_eigen[i].runs_left > 0) continue;
    fault = state.planned_eigen[i];
    faulty = true;
    state.planned_eigen.erase(state.planned_eigen.begin() + static_cast<std::ptrdiff_t>(i--));
  }
  for (int64_t i = 0; i < batch.count; ++i) SolveOne<Real>(batch, i, faulty ? &fault : nullptr);
}

// Returns the size of a workspace in bytes. Solvers of cuSOLVER request about as much.
size_t WorkspaceBytes(int64_t n, int64_t batch, size_t element) {
  return (static_cast<size_t>(n) * static_cast<size_t>(n) * 2 + static_cast<size_t>(n) * 4) *
             static_cast<size_t>(batch) * element +
         1024;
}

// The largest batch that the fake accepts. Larger batches have failed on a GPU, even with small matrices; see
// kMaxRootsAtOnce in core/backend/cuda/root_workspace.h.
constexpr int64_t kMaxEigenproblems = 32767;
constexpr int64_t kMaxEigenElements = std::numeric_limits<int32_t>::max();

bool IsValid(cusolverEigMode_t jobz, cublasFillMode_t uplo, int64_t n, int64_t lda, int64_t batch) {
  return (jobz == CUSOLVER_EIG_MODE_NOVECTOR || jobz == CUSOLVER_EIG_MODE_VECTOR) &&
         (uplo == CUBLAS_FILL_MODE_LOWER || uplo == CUBLAS_FILL_MODE_UPPER) && n >= 0 &&
         lda >= std::max<int64_t>(n, 1) && batch >= 0 && batch <= kMaxEigenproblems &&
         (batch == 0 || n <= kMaxEigenElements / lda / batch);
}

constexpr size_t kHostWorkspace = 512;

cusolverStatus_t Enqueue(const char* solver, const SolverHandle& handle, EigenBatch batch, bool f64) {
  State& state = TheState();
  const std::shared_ptr<Stream> stream = Call::StreamOf(handle.stream, handle.device);
  if (stream == nullptr || stream->device != handle.device || handle.device != CurrentDevice()) {
    return CUSOLVER_STATUS_EXECUTION_FAILED;
  }
  const std::string kernel =
      std::string(solver) + " of size " + std::to_string(batch.n) + (f64 ? " in f64" : " in f32");
  if (!state.Load(handle.device, kernel)) return CUSOLVER_STATUS_EXECUTION_FAILED;
  ++state.counts[FAKE_CUDA_EIGENPROBLEMS];
  if (batch.n == 0 || batch.count == 0) return CUSOLVER_STATUS_SUCCESS;
  batch.device = handle.device;
  // Imitates cuSOLVER: without the deterministic mode, results vary from call to call. In the deterministic mode,
  // results of the default algorithm still depend on whether the batch has more than one matrix.
  batch.rounds_differently = handle.deterministic ? !batch.one_algorithm && batch.count > 1 : NextRandom() % 2 == 0;
  const cudaError_t error =
      state.streams.Enqueue(stream, [batch, f64] { f64 ? SolveBatch<double>(batch) : SolveBatch<float>(batch); });
  if (state.solver == FAKE_CUDA_SOLVER_WAITS && stream->capture == nullptr) state.streams.Finish(stream);
  return error == cudaSuccess ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_EXECUTION_FAILED;
}

// Arguments of cusolverDnXsyevd() and cusolverDnXsyevBatched(), the 64-bit interface of cuSOLVER.
struct EigenShape {
  cusolverEigMode_t jobz;
  cublasFillMode_t uplo;
  int64_t n, lda, batch;
};
struct EigenTypes {
  cudaDataType a, w, compute;
  bool valid() const { return (a == CUDA_R_32F || a == CUDA_R_64F) && w == a && compute == a; }
  size_t element() const { return a == CUDA_R_64F ? 8 : 4; }
};
struct EigenArrays {
  void *a, *w;
  int* info;
  void* device;
  size_t device_bytes;
  void* host;
  size_t host_bytes;
};

// Returns CUSOLVER_STATUS_SUCCESS if a solver of the 64-bit interface accepts these arguments.
cusolverStatus_t CheckEigen(cusolverDnHandle_t handle, cusolverDnParams_t params, const EigenShape& shape,
                            const EigenTypes& types) {
  const State& state = TheState();
  const std::shared_ptr<SolverParams> found = state.params.Find(params);
  if (state.solvers.Find(handle) == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (found == nullptr || found->is_jacobi || !types.valid() ||
      !IsValid(shape.jobz, shape.uplo, shape.n, shape.lda, shape.batch) || shape.batch > state.max_eigen_matrices) {
    return CUSOLVER_STATUS_INVALID_VALUE;
  }
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t SizeOfEigen(cusolverDnHandle_t handle, cusolverDnParams_t params, const EigenShape& shape,
                             const EigenTypes& types, size_t* on_device, size_t* on_host) {
  const cusolverStatus_t status = CheckEigen(handle, params, shape, types);
  if (status != CUSOLVER_STATUS_SUCCESS) return status;
  if (on_device == nullptr || on_host == nullptr) return CUSOLVER_STATUS_INVALID_VALUE;
  *on_device = WorkspaceBytes(shape.n, shape.batch, types.element());
  *on_host = kHostWorkspace;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t SolveEigen(const char* function, cusolverDnHandle_t handle, cusolverDnParams_t params,
                            const EigenShape& shape, const EigenTypes& types, const EigenArrays& arrays) {
  const cusolverStatus_t status = CheckEigen(handle, params, shape, types);
  if (status != CUSOLVER_STATUS_SUCCESS) return status;
  if (arrays.device_bytes < WorkspaceBytes(shape.n, shape.batch, types.element()) ||
      arrays.host_bytes < kHostWorkspace || arrays.host == nullptr) {
    return CUSOLVER_STATUS_INVALID_VALUE;
  }
  std::memset(arrays.host, 0xff, arrays.host_bytes);
  // Only cusolverDnXsyevBatched(), the solver for batches, has several algorithms. `params` can select one of
  // them for all batches.
  const bool one_algorithm = shape.batch == 1 || TheState().params.Find(params)->one_algorithm;
  return Enqueue(
      function, *TheState().solvers.Find(handle),
      {shape.jobz == CUSOLVER_EIG_MODE_VECTOR, shape.uplo == CUBLAS_FILL_MODE_LOWER, true, shape.n, shape.lda,
       shape.batch, arrays.a, arrays.w, arrays.info, arrays.device, arrays.device_bytes, one_algorithm},
      types.a == CUDA_R_64F);
}

// Returns the status of a failed or skipped call (call.over() is true) of a batch solver. If a failure was injected,
// also enqueues work that overwrites the matrices with NaN, because cuSOLVER may overwrite the matrices before it
// fails.
cusolverStatus_t FailBatch(const Call& call, cusolverDnHandle_t handle, void* a, int64_t elements, size_t element) {
  const std::shared_ptr<SolverHandle> solver = TheState().solvers.Find(handle);
  const cusolverStatus_t status = call.Solver();
  if (solver == nullptr || status == CUSOLVER_STATUS_SUCCESS || TheState().fault != cudaSuccess) return status;
  const std::shared_ptr<Stream> stream = Call::StreamOf(solver->stream, solver->device);
  const size_t bytes = static_cast<size_t>(elements) * element;
  if (stream == nullptr) return status;
  (void)TheState().streams.Enqueue(stream, [a, bytes, device = solver->device] {
    if (TheState().Check(device, a, bytes, "cuSOLVER, A")) std::memset(a, 0xff, bytes);
  });
  return status;
}

template <typename Real>
cusolverStatus_t JacobiBufferSize(const Call& call, cusolverDnHandle_t handle, cusolverEigMode_t jobz,
                                  cublasFillMode_t uplo, int n, int lda, int* lwork, syevjInfo_t params, int batch) {
  if (call.over()) return call.Solver();
  const std::shared_ptr<SolverParams> found = TheState().params.Find(params);
  if (TheState().solvers.Find(handle) == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (found == nullptr || !found->is_jacobi || lwork == nullptr || !IsValid(jobz, uplo, n, lda, batch) ||
      batch > TheState().max_eigen_matrices) {
    return CUSOLVER_STATUS_INVALID_VALUE;
  }
  *lwork = static_cast<int>(WorkspaceBytes(n, batch, sizeof(Real)) / sizeof(Real));
  return CUSOLVER_STATUS_SUCCESS;
}

template <typename Real>
cusolverStatus_t Jacobi(const Call& call, cusolverDnHandle_t handle, cusolverEigMode_t jobz, cublasFillMode_t uplo,
                        int n, Real* a, int lda, Real* w, Real* work, int lwork, int* info, syevjInfo_t params,
                        int batch) {
  if (call.over()) return FailBatch(call, handle, a, static_cast<int64_t>(lda) * n * batch, sizeof(Real));
  const std::shared_ptr<SolverHandle> solver = TheState().solvers.Find(handle);
  const std::shared_ptr<SolverParams> found = TheState().params.Find(params);
  if (solver == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (found == nullptr || !found->is_jacobi || !IsValid(jobz, uplo, n, lda, batch) ||
      batch > TheState().max_eigen_matrices || lwork < 0 ||
      static_cast<size_t>(lwork) < WorkspaceBytes(n, batch, sizeof(Real)) / sizeof(Real)) {
    return CUSOLVER_STATUS_INVALID_VALUE;
  }
  return Enqueue("syevjBatched", *solver,
                 {jobz == CUSOLVER_EIG_MODE_VECTOR, uplo == CUBLAS_FILL_MODE_LOWER, found->sorted, n, lda, batch, a, w,
                  info, work, static_cast<size_t>(lwork) * sizeof(Real), true},
                 sizeof(Real) == sizeof(double));
}

}  // namespace
}  // namespace shampoo::cuda_fake

using namespace shampoo::cuda_fake;

extern "C" {

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* out) {
  const Call call(__func__, Call::kUnsafe);
  if (call.over()) return call.Solver();
  if (out == nullptr) return CUSOLVER_STATUS_INVALID_VALUE;
  *out = TheState().solvers.Add(std::make_shared<SolverHandle>(SolverHandle{CurrentDevice()}));
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) {
  // In cuSOLVER, cusolverDnDestroy() waits for the device. The fake does not wait, because callers must not rely on the
  // wait. The flag kWaitsForDevice only affects captures.
  const Call call(__func__, Call::kUnsafe | Call::kWaitsForDevice | Call::kReleases);
  if (call.over()) return call.Solver();
  return TheState().solvers.Remove(handle) ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_NOT_INITIALIZED;
}

cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Solver();
  const std::shared_ptr<SolverHandle> found = TheState().solvers.Find(handle);
  if (found == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (Call::StreamOf(stream, found->device) == nullptr) return CUSOLVER_STATUS_INVALID_VALUE;
  found->stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSetDeterministicMode(cusolverDnHandle_t handle, cusolverDeterministicMode_t mode) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Solver();
  const std::shared_ptr<SolverHandle> found = TheState().solvers.Find(handle);
  if (found == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  found->deterministic = mode == CUSOLVER_DETERMINISTIC_RESULTS;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSetAdvOptions(cusolverDnParams_t params, cusolverDnFunction_t function,
                                         cusolverAlgMode_t algorithm) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Solver();
  const std::shared_ptr<SolverParams> found = TheState().params.Find(params);
  if (found == nullptr || found->is_jacobi) return CUSOLVER_STATUS_INVALID_VALUE;
#if CUDART_VERSION >= 13000
  if (function == CUSOLVERDN_SYEVBATCHED) found->one_algorithm = algorithm == CUSOLVER_ALG_1;
#else
  (void)function;
  (void)algorithm;
#endif
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t* out) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Solver();
  if (out == nullptr) return CUSOLVER_STATUS_INVALID_VALUE;
  *out = static_cast<cusolverDnParams_t>(TheState().params.Add(std::make_shared<SolverParams>(SolverParams{false})));
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnDestroyParams(cusolverDnParams_t params) {
  const Call call(__func__, Call::kReleases);
  if (call.over()) return call.Solver();
  return TheState().params.Remove(params) ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE;
}

cusolverStatus_t cusolverDnXsyevBatched_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                                   cusolverEigMode_t jobz, cublasFillMode_t uplo, int64_t n,
                                                   cudaDataType dataTypeA, const void*, int64_t lda,
                                                   cudaDataType dataTypeW, const void*, cudaDataType computeType,
                                                   size_t* workspaceInBytesOnDevice, size_t* workspaceInBytesOnHost,
                                                   int64_t batchSize) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Solver();
  return SizeOfEigen(handle, params, {jobz, uplo, n, lda, batchSize}, {dataTypeA, dataTypeW, computeType},
                     workspaceInBytesOnDevice, workspaceInBytesOnHost);
}

cusolverStatus_t cusolverDnXsyevBatched(cusolverDnHandle_t handle, cusolverDnParams_t params, cusolverEigMode_t jobz,
                                        cublasFillMode_t uplo, int64_t n, cudaDataType dataTypeA, void* A, int64_t lda,
                                        cudaDataType dataTypeW, void* W, cudaDataType computeType, void* bufferOnDevice,
                                        size_t workspaceInBytesOnDevice, void* bufferOnHost,
                                        size_t workspaceInBytesOnHost, int* info, int64_t batchSize) {
  WaitWhileHeld();
  const Call call(__func__, Call::kNone);
  if (call.over()) return FailBatch(call, handle, A, lda * n * batchSize, dataTypeA == CUDA_R_64F ? 8 : 4);
  return SolveEigen("XsyevBatched", handle, params, {jobz, uplo, n, lda, batchSize},
                    {dataTypeA, dataTypeW, computeType},
                    {A, W, info, bufferOnDevice, workspaceInBytesOnDevice, bufferOnHost, workspaceInBytesOnHost});
}

cusolverStatus_t cusolverDnXsyevd_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                             cusolverEigMode_t jobz, cublasFillMode_t uplo, int64_t n,
                                             cudaDataType dataTypeA, const void*, int64_t lda, cudaDataType dataTypeW,
                                             const void*, cudaDataType computeType, size_t* workspaceInBytesOnDevice,
                                             size_t* workspaceInBytesOnHost) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Solver();
  return SizeOfEigen(handle, params, {jobz, uplo, n, lda, 1}, {dataTypeA, dataTypeW, computeType},
                     workspaceInBytesOnDevice, workspaceInBytesOnHost);
}

cusolverStatus_t cusolverDnXsyevd(cusolverDnHandle_t handle, cusolverDnParams_t params, cusolverEigMode_t jobz,
                                  cublasFillMode_t uplo, int64_t n, cudaDataType dataTypeA, void* A, int64_t lda,
                                  cudaDataType dataTypeW, void* W, cudaDataType computeType, void* bufferOnDevice,
                                  size_t workspaceInBytesOnDevice, void* bufferOnHost, size_t workspaceInBytesOnHost,
                                  int* info) {
  WaitWhileHeld();
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Solver();
  return SolveEigen("Xsyevd", handle, params, {jobz, uplo, n, lda, 1}, {dataTypeA, dataTypeW, computeType},
                    {A, W, info, bufferOnDevice, workspaceInBytesOnDevice, bufferOnHost, workspaceInBytesOnHost});
}

cusolverStatus_t cusolverDnCreateSyevjInfo(syevjInfo_t* out) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Solver();
  if (out == nullptr) return CUSOLVER_STATUS_INVALID_VALUE;
  *out = static_cast<syevjInfo_t>(TheState().params.Add(std::make_shared<SolverParams>(SolverParams{true})));
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnDestroySyevjInfo(syevjInfo_t info) {
  const Call call(__func__, Call::kReleases);
  if (call.over()) return call.Solver();
  return TheState().params.Remove(info) ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE;
}

// The fake's solver needs neither a tolerance nor a number of sweeps, so the next two functions only check their
// arguments.
cusolverStatus_t cusolverDnXsyevjSetTolerance(syevjInfo_t info, double tolerance) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Solver();
  const bool valid = TheState().params.Find(info) != nullptr && std::isfinite(tolerance) && tolerance >= 0;
  return valid ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE;
}

cusolverStatus_t cusolverDnXsyevjSetMaxSweeps(syevjInfo_t info, int max_sweeps) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Solver();
  const bool valid = TheState().params.Find(info) != nullptr && max_sweeps >= 1;
  return valid ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE;
}

cusolverStatus_t cusolverDnXsyevjSetSortEig(syevjInfo_t info, int sort_eig) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Solver();
  const std::shared_ptr<SolverParams> found = TheState().params.Find(info);
  if (found == nullptr || !found->is_jacobi) return CUSOLVER_STATUS_INVALID_VALUE;
  found->sorted = sort_eig != 0;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSsyevjBatched_bufferSize(cusolverDnHandle_t handle, cusolverEigMode_t jobz,
                                                    cublasFillMode_t uplo, int n, const float*, int lda, const float*,
                                                    int* lwork, syevjInfo_t params, int batchSize) {
  const Call call(__func__, Call::kNone);
  return JacobiBufferSize<float>(call, handle, jobz, uplo, n, lda, lwork, params, batchSize);
}

cusolverStatus_t cusolverDnDsyevjBatched_bufferSize(cusolverDnHandle_t handle, cusolverEigMode_t jobz,
                                                    cublasFillMode_t uplo, int n, const double*, int lda, const double*,
                                                    int* lwork, syevjInfo_t params, int batchSize) {
  const Call call(__func__, Call::kNone);
  return JacobiBufferSize<double>(call, handle, jobz, uplo, n, lda, lwork, params, batchSize);
}

cusolverStatus_t cusolverDnSsyevjBatched(cusolverDnHandle_t handle, cusolverEigMode_t jobz, cublasFillMode_t uplo,
                                         int n, float* A, int lda, float* W, float* work, int lwork, int* info,
                                         syevjInfo_t params, int batchSize) {
  WaitWhileHeld();
  const Call call(__func__, Call::kNone);
  return Jacobi(call, handle, jobz, uplo, n, A, lda, W, work, lwork, info, params, batchSize);
}

cusolverStatus_t cusolverDnDsyevjBatched(cusolverDnHandle_t handle, cusolverEigMode_t jobz, cublasFillMode_t uplo,
                                         int n, double* A, int lda, double* W, double* work, int lwork, int* info,
                                         syevjInfo_t params, int batchSize) {
  WaitWhileHeld();
  const Call call(__func__, Call::kNone);
  return Jacobi(call, handle, jobz, uplo, n, A, lda, W, work, lwork, info, params, batchSize);
}

}  // extern "C"
