// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/root_solver.h"
#include "core/backend/cuda/plugin/roots_chunk.h"
#include "core/backend/cuda/root_meter_layout.h"
#include "core/backend/cuda/root_workspace.h"
#include "tests/cuda/fake/control.h"

// Functions that run RootSolver on the fake of CUDA. RootSolver computes the inverse roots of a batch of matrices.
// Tests pass the matrices in host memory.
namespace shampoo::cuda_test {

using namespace shampoo::cuda;

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr RootMethod kMethods[] = {RootMethod::kEigen, RootMethod::kNewton, RootMethod::kHigherOrder,
                                          RootMethod::kCans};

template <typename Real>
inline constexpr Dtype kDtype = sizeof(Real) == 4 ? Dtype::kF32 : Dtype::kF64;

inline void Check(const Status& status) {
  INFO(status.message());
  REQUIRE(status.ok());
}
inline void Check(cudaError_t error) { REQUIRE(error == cudaSuccess); }

// Device memory that initially contains the elements of a vector.
template <typename Element>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<Element>& elements) : count_(elements.size()) {
    void* memory = nullptr;
    Check(cudaMalloc(&memory, std::max<size_t>(1, Bytes())));
    data_ = static_cast<Element*>(memory);
    Check(cudaMemcpy(data_, elements.data(), Bytes(), cudaMemcpyHostToDevice));
  }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  Element* data() const { return data_; }
  std::vector<Element> Read() const {
    std::vector<Element> elements(count_);
    Check(cudaMemcpy(elements.data(), data_, Bytes(), cudaMemcpyDeviceToHost));
    return elements;
  }

 private:
  size_t Bytes() const { return count_ * sizeof(Element); }
  size_t count_;
  Element* data_ = nullptr;
};

// A stream with handles of cuBLAS and cuSOLVER, which are set up as in the plugin.
struct Device {
  Device() {
    Check(cudaStreamCreate(&handles.stream));
    REQUIRE(cublasCreate(&handles.blas) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cublasSetStream(handles.blas, handles.stream) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cublasSetWorkspace(handles.blas, blas_memory.data(), 1 << 20) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cusolverDnCreate(&handles.solver) == CUSOLVER_STATUS_SUCCESS);
    REQUIRE(cusolverDnSetDeterministicMode(handles.solver, CUSOLVER_DETERMINISTIC_RESULTS) == CUSOLVER_STATUS_SUCCESS);
    REQUIRE(cusolverDnSetStream(handles.solver, handles.stream) == CUSOLVER_STATUS_SUCCESS);
  }
  ~Device() {
    cusolverDnDestroy(handles.solver);
    cublasDestroy(handles.blas);
    cudaStreamDestroy(handles.stream);
  }
  OnDevice<char> blas_memory{std::vector<char>(1 << 20)};
  Handles handles{};
};

// Ends the capture of a stream, and runs the captured graph in this stream.
inline void Replay(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  Check(cudaStreamEndCapture(stream, &graph));
  Check(cudaGraphInstantiate(&exec, graph, 0));
  Check(cudaGraphLaunch(exec, stream));
  Check(cudaStreamSynchronize(stream));
  Check(cudaGraphExecDestroy(exec));
  Check(cudaGraphDestroy(graph));
}

template <typename Real>
using Matrix = std::vector<Real>;

// The options with which Solve() computes roots. The defaults are those of the preset shampoo_2024 for a factor matrix
// of a parameter of order 2.
struct Question {
  RootMethod method = RootMethod::kEigen;
  Dtype root_dtype = Dtype::kF32;
  int64_t root = 4;  // r in the exponent -multiplier / r
  double multiplier = 1;
  double epsilon = 1e-12;
  double divisor = 1;        // RootSolver first divides the matrices by this number
  double limit = kInfinity;  // the largest magnitude that an element of a root may have
  double tolerance = 1e-6;
  int64_t max_iterations = 100;
  int64_t order = 3;  // the key root_order, which root_method=higher_order reads
  bool pseudo_inverse = false;
  double rank_rtol = -1;
  double rank_atol = 0;
  bool may_be_diagonal = true;  // true: the root of a diagonal matrix is computed from its diagonal
  bool active = true;           // false: the step is rejected, so nothing is written
  bool captured = false;        // the roots are computed in a replay of a captured graph
  double relative_epsilon = 0;
  bool tracked = false;  // the key track_root_residuals

  DeviceSettings ForDevice() const {
    DeviceSettings settings{};
    settings.root_method = method;
    settings.exponent_multiplier = multiplier;
    settings.epsilon = epsilon;
    settings.root_tolerance = tolerance;
    settings.root_max_iterations = max_iterations;
    settings.root_order = order;
    settings.root_rank_handling = pseudo_inverse ? RankHandling::kPseudoInverse : RankHandling::kEpsilon;
    settings.root_rank_rtol = rank_rtol;
    settings.root_rank_atol = rank_atol;
    settings.root_relative_epsilon = relative_epsilon;
    settings.track_root_residuals = tracked;
    return settings;
  }
};

// Returns the settings with which the CPU computes the same root.
inline Settings ForCpu(const Question& question) {
  Settings settings;
  settings.root_method = question.method;
  settings.root_dtype = question.root_dtype;
  settings.exponent_multiplier = question.multiplier;
  settings.epsilon = question.epsilon;
  settings.root_tolerance = question.tolerance;
  settings.root_max_iterations = question.max_iterations;
  settings.root_order = question.order;
  settings.root_rank_handling = question.pseudo_inverse ? RankHandling::kPseudoInverse : RankHandling::kEpsilon;
  settings.root_rank_rtol = question.rank_rtol;
  settings.root_rank_atol = question.rank_atol;
  settings.root_relative_epsilon = question.relative_epsilon;
  return settings;
}

template <typename Real>
struct Answer {
  std::vector<Matrix<Real>> matrices;
  std::vector<RootStatus> status;
  int64_t products = 0;  // matrix products that cuBLAS computed; a batch counts once
};

// Computes the roots of a batch of n x n matrices on the device. Checks that the device memory between the matrices
// does not change.
template <typename Real>
Answer<Real> Solve(const Question& question, int64_t n, const std::vector<Matrix<Real>>& matrices) {
  constexpr Real kBetween = 77;
  const auto size = static_cast<size_t>(n * n);
  const size_t stride = size + 3;
  Device device;
  std::vector<Real> packed(stride * matrices.size(), kBetween);
  for (size_t i = 0; i < matrices.size(); ++i) {
    std::copy(matrices[i].begin(), matrices[i].end(), packed.begin() + static_cast<ptrdiff_t>(i * stride));
  }
  const OnDevice<Real> on_device(packed);
  const OnDevice<double> divisor({question.divisor});
  const OnDevice<int32_t> flag({question.may_be_diagonal ? 1 : 0});
  const OnDevice<const int32_t*> flags(std::vector<const int32_t*>(matrices.size(), flag.data()));
  const OnDevice<int32_t> active({question.active ? 1 : 0});
  // RootSolver must not change the ticket. It must set `iterations`, unless the step is rejected.
  RootStatus untouched{};
  untouched.ticket = 5;
  untouched.iterations = -7;
  const OnDevice<RootStatus> status(std::vector<RootStatus>(matrices.size(), untouched));

  RootBatch batch;
  batch.n = n;
  batch.count = static_cast<int64_t>(matrices.size());
  batch.stride = static_cast<int64_t>(stride);
  batch.computation = kDtype<Real>;
  const RootMethod method = MethodOfRoot(question.ForDevice(), question.root, 1, n);
  batch.root_dtype = DtypeOfMethod(method, question.root_dtype);
  batch.limit = std::min(question.limit, LargestFinite(kDtype<Real>));
  batch.root = question.root;
  batch.matrices = on_device.data();
  batch.divisor = divisor.data();
  batch.may_be_diagonal = flags.data();
  batch.active = active.data();
  batch.status = status.data();

  std::unique_ptr<RootSolver> solver;
  Check(RootSolver::Create({{method, n, batch.count, batch.root_dtype, question.tracked}}, device.handles, &solver));
  const int64_t meter_bytes =
      question.tracked ? EstimatedMeterBytes(n, LargestRootChunk(method, n, batch.count, batch.root_dtype)) : 0;
  CHECK(solver->WorkspaceBytes() <= RootWorkspaceBytes(method, n, batch.count, batch.root_dtype) + meter_bytes);
  const OnDevice<char> workspace(std::vector<char>(static_cast<size_t>(solver->WorkspaceBytes()), char(0x7f)));
  fake_cuda_mark();
  if (question.captured) Check(cudaStreamBeginCapture(device.handles.stream, cudaStreamCaptureModeGlobal));
  Check(solver->Compute(batch, question.ForDevice(), device.handles, workspace.data()));
  if (question.captured) Replay(device.handles.stream);
  const int64_t waits = fake_cuda_count(FAKE_CUDA_SYNCHRONIZATIONS);
  CHECK(fake_cuda_count(FAKE_CUDA_ALLOCATIONS) == 0);
  Check(cudaStreamSynchronize(device.handles.stream));
  CHECK(fake_cuda_count(FAKE_CUDA_NONFINITE_EIGENPROBLEMS) == 0);
  CHECK(std::string(fake_cuda_problems()).empty());

  Answer<Real> answer;
  answer.status = status.Read();
  answer.products = fake_cuda_count(FAKE_CUDA_PRODUCTS);
  // Only methods newton and higher_order wait for the device, after every kIterationsPerPoll iterations.
  int64_t iterations = 0;
  for (const RootStatus& one : answer.status) iterations = std::max<int64_t>(iterations, one.iterations);
  const bool polls = method == RootMethod::kNewton || method == RootMethod::kHigherOrder;
  CHECK(waits <= (polls ? iterations / kIterationsPerPoll + 1 : 0));
  const std::vector<Real> result = on_device.Read();
  for (size_t i = 0; i < matrices.size(); ++i) {
    const auto begin = result.begin() + static_cast<ptrdiff_t>(i * stride);
    answer.matrices.emplace_back(begin, begin + static_cast<ptrdiff_t>(size));
    for (size_t between = size; between < stride; ++between) CHECK(result[i * stride + between] == kBetween);
    CHECK(answer.status[i].ticket == 5);
  }
  return answer;
}

// Returns a random symmetric matrix with eigenvalues from magnitude / condition to magnitude. If `zeros` is
// positive, the smallest and zeros - 1 other eigenvalues are 0 instead.
template <typename Real>
Matrix<Real> RandomMatrix(int64_t n, double condition, std::mt19937_64* random, int64_t zeros = 0,
                          double magnitude = 1) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  const auto count = static_cast<size_t>(n);
  std::vector<double> a(count * count);
  for (size_t i = 0; i < count; ++i) {
    const double exponent = i == 0 ? 0 : i + 1 == count ? 1 : uniform(*random);
    a[i * count + i] = static_cast<int64_t>(i) >= n - zeros ? 0 : std::pow(condition, -exponent);
  }
  for (int reflection = 0; reflection < 3; ++reflection) {
    std::vector<double> v(count);
    double norm = 0;
    for (double& element : v) element = normal(*random);
    for (const double element : v) norm += element * element;
    // Computes H A H with H = I - 2 v v^T / |v|^2.
    for (const bool rows : {true, false}) {
      for (size_t i = 0; i < count; ++i) {
        double product = 0;
        const auto at = [&](size_t j) -> double& { return a[rows ? i * count + j : j * count + i]; };
        for (size_t j = 0; j < count; ++j) product += at(j) * v[j];
        for (size_t j = 0; j < count; ++j) at(j) -= 2 * product / norm * v[j];
      }
    }
  }
  Matrix<Real> rounded(count * count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      rounded[i * count + j] = static_cast<Real>(a[i * count + j] * magnitude);
      rounded[j * count + i] = rounded[i * count + j];
    }
  }
  return rounded;
}

template <typename Real>
Matrix<Real> Diagonal(const std::vector<double>& elements) {
  const size_t n = elements.size();
  Matrix<Real> matrix(n * n);
  for (size_t i = 0; i < n; ++i) matrix[i * n + i] = static_cast<Real>(elements[i]);
  return matrix;
}

}  // namespace shampoo::cuda_test
