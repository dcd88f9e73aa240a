// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Measures properties of a GPU and its libraries that the design of the CUDA backend relies on:
//   probe [--tiny] [SECTION...]
// Without SECTION, all sections run:
// - workspaces: the workspace that eigensolvers request
// - eigensolvers: time of a call and of its work on the device, accuracy and workspace, for each size of matrices,
//   size of a batch and algorithm.
//   Column "equal bits": whether identical matrices and repeated calls give bit-identical results. Column "as alone":
//   whether the first matrix has a result that is bit-identical to that of a batch of one matrix. If a call takes as
//   long as its work on the device, the solver waits for the device. Because some solvers wait, root_async uses its own
//   thread.
// - single: time of eigensolvers for one matrix per call, on 1 to 8 threads
// - capture: whether a call of an eigensolver can be captured into a graph
// - others: which calls of one thread invalidate a capture that another thread makes
// - products: rates of batched matrix products in float32 and TF32
// - copies: rate of copies in device memory
// --tiny: measures only small problems, for the fake CUDA.
// With and without --tiny, the exit status is 1 if a required call fails or if a result is wrong.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusolverDn.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

int failures = 0;

void Must(bool ok, const char* call, long long code) {
  if (ok) return;
  std::fprintf(stderr, "probe: %s returned %lld\n", call, code);
  std::exit(1);
}

#define MUST(call)                                                        \
  do {                                                                    \
    const auto result = (call);                                           \
    Must(static_cast<int>(result) == 0, #call, static_cast<int>(result)); \
  } while (false)

// An array of T in device memory.
template <typename T>
class Array {
 public:
  explicit Array(int64_t count) : bytes_(static_cast<size_t>(std::max<int64_t>(count, 1)) * sizeof(T)) {
    MUST(cudaMalloc(&data_, bytes_));
  }
  ~Array() { (void)cudaFree(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  T* get() const { return static_cast<T*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

// The time of a call on the host and the time of its work on the device, in milliseconds.
struct Times {
  double host = std::numeric_limits<double>::infinity();
  double device = std::numeric_limits<double>::infinity();
};

class Probe {
 public:
  explicit Probe(bool tiny) : tiny_(tiny) {
    MUST(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    MUST(cublasCreate(&blas_));
    MUST(cublasSetStream(blas_, stream_));
    MUST(cusolverDnCreate(&solver_));
    MUST(cusolverDnSetStream(solver_, stream_));
    MUST(cusolverDnCreateParams(&params_));
    for (cudaEvent_t& event : events_) MUST(cudaEventCreateWithFlags(&event, cudaEventDefault));
  }
  ~Probe() {
    for (cudaEvent_t event : events_) (void)cudaEventDestroy(event);
    (void)cusolverDnDestroyParams(params_);
    (void)cusolverDnDestroy(solver_);
    (void)cublasDestroy(blas_);
    (void)cudaStreamDestroy(stream_);
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  // Runs the sections with these names. If there is no name, runs all sections.
  void Run(const std::vector<std::string>& sections) {
    const std::pair<const char*, std::function<void()>> all[] = {
        {"workspaces", [this] { Workspaces(); }},   {"eigensolvers", [this] { Eigensolvers(); }},
        {"single", [this] { SingleSolvers(); }},    {"capture", [this] { Capture(); }},
        {"others", [this] { CapturesOfOthers(); }}, {"products", [this] { Products(); }},
        {"copies", [this] { Copies(); }},
    };
    Versions();
    for (const auto& [name, run] : all) {
      if (sections.empty() || std::find(sections.begin(), sections.end(), name) != sections.end()) run();
    }
  }

 private:
  using SetOptions = cusolverStatus_t (*)(cusolverDnParams_t, cusolverDnFunction_t, cusolverAlgMode_t);
  struct Workspace {
    size_t device = 0;
    size_t host = 0;
  };

  void Versions() const {
    int driver = 0;
    int runtime = 0;
    int blas = 0;
    MUST(cudaDriverGetVersion(&driver));
    MUST(cudaRuntimeGetVersion(&runtime));
    MUST(cublasGetVersion(blas_, &blas));
    std::printf("CUDA driver %d, runtime %d, cuBLAS %d\n", driver, runtime, blas);
  }

  template <typename Work>
  Times Measure(int runs, const Work& work) const {
    Times shortest;
    for (int run = 0; run < runs; ++run) {
      MUST(cudaDeviceSynchronize());
      MUST(cudaEventRecord(events_[0], stream_));
      const auto start = std::chrono::steady_clock::now();
      work();
      const double host = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
      MUST(cudaEventRecord(events_[1], stream_));
      MUST(cudaEventSynchronize(events_[1]));
      float device = 0;
      MUST(cudaEventElapsedTime(&device, events_[0], events_[1]));
      if (run == 0 && runs > 1) continue;  // warm-up
      shortest.host = std::min(shortest.host, host);
      shortest.device = std::min(shortest.device, static_cast<double>(device));
    }
    return shortest;
  }

  void Multiply(bool transpose_a, int64_t n, int64_t k, const float* a, const float* b, bool transpose_b, float* c,
                int64_t count = 1, cublasComputeType_t type = CUBLAS_COMPUTE_32F, float alpha = 1) const {
    const float beta = 0;
    const auto leading = [](int64_t rows) { return static_cast<int>(rows); };
    MUST(cublasGemmStridedBatchedEx(blas_, transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                                    transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, leading(n), leading(n), leading(k), &alpha,
                                    a, CUDA_R_32F, leading(transpose_a ? k : n), n * k, b, CUDA_R_32F,
                                    leading(transpose_b ? n : k), n * k, &beta, c, CUDA_R_32F, leading(n), n * n,
                                    leading(count), type, CUBLAS_GEMM_DEFAULT));
  }

  // Fills all matrices of the batch with one random symmetric matrix, whose condition number is about 30.
  void FillMatrices(int64_t n, int64_t count, float* matrices) const {
    std::mt19937 random(static_cast<uint32_t>(n));
    std::normal_distribution<float> normal;
    std::vector<float> host(static_cast<size_t>(n * 2 * n));
    for (float& value : host) value = normal(random);
    const Array<float> g(n * 2 * n);
    MUST(cudaMemcpyAsync(g.get(), host.data(), g.bytes(), cudaMemcpyHostToDevice, stream_));
    Multiply(false, n, 2 * n, g.get(), g.get(), true, matrices, 1, CUBLAS_COMPUTE_32F, 1 / static_cast<float>(2 * n));
    for (int64_t i = 1; i < count; ++i) {
      MUST(cudaMemcpyAsync(matrices + i * n * n, matrices, static_cast<size_t>(n * n) * sizeof(float),
                           cudaMemcpyDeviceToDevice, stream_));
    }
    MUST(cudaStreamSynchronize(stream_));
  }

  std::vector<float> ToHost(const float* from, int64_t count) const {
    std::vector<float> host(static_cast<size_t>(count));
    MUST(cudaMemcpyAsync(host.data(), from, host.size() * sizeof(float), cudaMemcpyDeviceToHost, stream_));
    MUST(cudaStreamSynchronize(stream_));
    return host;
  }

  cusolverStatus_t SolverBytes(int64_t n, int64_t count, Workspace* workspace) const {
    return cusolverDnXsyevBatched_bufferSize(solver_, params_, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_UPPER, n,
                                             CUDA_R_32F, nullptr, n, CUDA_R_32F, nullptr, CUDA_R_32F,
                                             &workspace->device, &workspace->host, count);
  }

  cusolverStatus_t Solve(int64_t n, int64_t count, float* a, float* w, void* device, const Workspace& workspace,
                         void* host, int* info) const {
    return cusolverDnXsyevBatched(solver_, params_, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_UPPER, n, CUDA_R_32F, a,
                                  n, CUDA_R_32F, w, CUDA_R_32F, device, workspace.device, host, workspace.host, info,
                                  count);
  }

  void Eigensolvers() {
    std::printf(
        "\neigenvectors by cusolverDnXsyevBatched, float32\n"
        "%5s %6s %4s %10s %10s %10s %9s %9s %11s %9s %9s %9s\n",
        "n", "batch", "alg", "call ms", "device ms", "per matrix", "not orth.", "residual", "equal bits", "as alone",
        "MiB", "host B");
    const std::vector<int64_t> sizes =
        tiny_ ? std::vector<int64_t>{5, 40} : std::vector<int64_t>{1024, 512, 256, 768, 2048, 128, 64, 33};
    for (const int64_t n : sizes) {
      for (const int64_t count : tiny_ ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{1, 2, 4, 8, 40, 160}) {
        if (n * n * count > int64_t{1} << 28) continue;
        for (const int algorithm : {0, 1}) Eigensolver(n, count, algorithm);
      }
    }
  }

  // Prints the workspace that cuSOLVER requests, or -1 if it was not queried or if the query failed. The last column is
  // empty if n is above 32, and 0 if its query failed. The estimates in core/backend/cuda/root_workspace.h are based on
  // these numbers.
  void Workspaces() const {
    std::printf("\nworkspace in KiB\n%5s %14s %14s %14s %14s %14s %14s\n", "n", "batch 1, f32", "batch 40, f32",
                "batch 40, f64", "single, f32", "single, f64", "Jacobi 40, f32");
    for (const int64_t n :
         tiny_ ? std::vector<int64_t>{5, 40}
               : std::vector<int64_t>{2,   5,   16,  31,  32,  33,  40,  48,  64,   65,   96,   128, 129,
                                      160, 192, 250, 256, 257, 384, 512, 700, 1024, 1025, 2048, 4096}) {
      const auto batched = [&](int64_t count, cudaDataType type) {
        size_t device = 0;
        size_t host = 0;
        const cusolverStatus_t status =
            cusolverDnXsyevBatched_bufferSize(solver_, params_, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_UPPER, n,
                                              type, nullptr, n, type, nullptr, type, &device, &host, count);
        return status == CUSOLVER_STATUS_SUCCESS ? static_cast<double>(device) / 1024 : -1.0;
      };
      const auto single = [&](cudaDataType type) {
        size_t device = 0;
        size_t host = 0;
        const cusolverStatus_t status =
            cusolverDnXsyevd_bufferSize(solver_, params_, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_UPPER, n, type,
                                        nullptr, n, type, nullptr, type, &device, &host);
        return status == CUSOLVER_STATUS_SUCCESS ? static_cast<double>(device) / 1024 : -1.0;
      };
      std::printf("%5lld %14.2f %14.2f %14.2f %14.2f %14.2f", static_cast<long long>(n), batched(1, CUDA_R_32F),
                  n > 2048 ? -1.0 : batched(40, CUDA_R_32F), n > 2048 ? -1.0 : batched(40, CUDA_R_64F),
                  single(CUDA_R_32F), single(CUDA_R_64F));
      syevjInfo_t jacobi = nullptr;
      int elements = 0;
      if (n <= 32 && cusolverDnCreateSyevjInfo(&jacobi) == CUSOLVER_STATUS_SUCCESS) {
        (void)cusolverDnSsyevjBatched_bufferSize(solver_, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_UPPER,
                                                 static_cast<int>(n), nullptr, static_cast<int>(n), nullptr, &elements,
                                                 jacobi, 40);
        (void)cusolverDnDestroySyevjInfo(jacobi);
        std::printf(" %14.2f", elements * 4.0 / 1024);
      }
      std::puts("");
    }
  }

  // Measures the solver for one matrix, on 1 to 8 threads. Each thread has its own stream.
  void SingleSolvers() {
    std::printf("\neigenvectors by cusolverDnXsyevd, one matrix per call, float32\n%5s %8s %8s %12s %14s %12s\n", "n",
                "threads", "matrices", "call ms", "ms per matrix", "workspace");
    for (const int64_t n : tiny_ ? std::vector<int64_t>{40} : std::vector<int64_t>{128, 256, 512, 768, 1024, 2048}) {
      for (const int threads : {1, 2, 4, 8}) SingleSolver(n, threads);
    }
  }

  void SingleSolver(int64_t n, int threads) const {
    constexpr int kEach = 4;
    std::vector<std::thread> running;
    std::atomic<int> ready{0};
    std::atomic<bool> go{false};
    std::atomic<double> call{0};
    size_t bytes = 0;
    for (int thread = 0; thread < threads; ++thread) {
      running.emplace_back([&, thread] {
        cudaStream_t stream = nullptr;
        cusolverDnHandle_t solver = nullptr;
        cusolverDnParams_t params = nullptr;
        MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        MUST(cusolverDnCreate(&solver));
        MUST(cusolverDnSetStream(solver, stream));
        MUST(cusolverDnCreateParams(&params));
        size_t device_bytes = 0;
        size_t host_bytes = 0;
        MUST(cusolverDnXsyevd_bufferSize(solver, params, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_UPPER, n,
                                         CUDA_R_32F, nullptr, n, CUDA_R_32F, nullptr, CUDA_R_32F, &device_bytes,
                                         &host_bytes));
        const Array<float> original(n * n);
        const Array<float> a(n * n);
        const Array<float> w(n);
        const Array<int> info(1);
        const Array<char> device(static_cast<int64_t>(device_bytes));
        std::vector<char> host(std::max<size_t>(host_bytes, 1));
        if (thread == 0) bytes = device_bytes;
        {
          static std::mutex mutex;
          const std::lock_guard<std::mutex> lock(mutex);
          FillMatrices(n, 1, original.get());
        }
        const auto solve = [&] {
          MUST(cudaMemcpyAsync(a.get(), original.get(), a.bytes(), cudaMemcpyDeviceToDevice, stream));
          MUST(cusolverDnXsyevd(solver, params, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_UPPER, n, CUDA_R_32F,
                                a.get(), n, CUDA_R_32F, w.get(), CUDA_R_32F, device.get(), device_bytes, host.data(),
                                host_bytes, info.get()));
        };
        solve();
        MUST(cudaStreamSynchronize(stream));
        ++ready;
        while (!go.load()) std::this_thread::yield();
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < kEach; ++i) solve();
        const double host_ms =
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / kEach;
        if (thread == 0) call.store(host_ms);
        MUST(cudaStreamSynchronize(stream));
        MUST(cusolverDnDestroyParams(params));
        MUST(cusolverDnDestroy(solver));
        MUST(cudaStreamDestroy(stream));
      });
    }
    while (ready.load() < threads) std::this_thread::yield();
    const auto start = std::chrono::steady_clock::now();
    go.store(true);
    for (std::thread& thread : running) thread.join();
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    std::printf("%5lld %8d %8d %12.3f %14.3f %8.1f MiB\n", static_cast<long long>(n), threads, threads * kEach,
                call.load(), ms / (threads * kEach), static_cast<double>(bytes) / 1048576);
    std::fflush(stdout);
  }

  void Eigensolver(int64_t n, int64_t count, int algorithm) {
    // Some versions of cuSOLVER lack cusolverDnSetAdvOptions() or CUSOLVER_ALG_1.
    static const auto set = reinterpret_cast<SetOptions>(dlsym(RTLD_DEFAULT, "cusolverDnSetAdvOptions"));
    constexpr auto kSyevBatched = static_cast<cusolverDnFunction_t>(2);
    if (algorithm != 0 && (set == nullptr || set(params_, kSyevBatched, CUSOLVER_ALG_1) != CUSOLVER_STATUS_SUCCESS))
      return;
    if (algorithm == 0 && set != nullptr) (void)set(params_, kSyevBatched, CUSOLVER_ALG_0);
    std::printf("%5lld %6lld %4d ", static_cast<long long>(n), static_cast<long long>(count), algorithm);
    Workspace workspace;
    cusolverStatus_t status = SolverBytes(n, count, &workspace);
    if (status != CUSOLVER_STATUS_SUCCESS) {
      std::printf("bufferSize returned %d\n", static_cast<int>(status));
      return;
    }
    const Array<float> original(n * n * count);
    const Array<float> vectors(n * n * count);
    const Array<float> values(n * count);
    const Array<int> info(count);
    const Array<char> device(static_cast<int64_t>(workspace.device));
    std::vector<char> host(std::max<size_t>(workspace.host, 1));
    FillMatrices(n, count, original.get());
    std::vector<float> first;
    std::vector<float>& alone = alone_[algorithm];
    if (count == 1) alone.clear();
    bool equal = true;
    Times times;
    for (int run = 0; run < 3 && status == CUSOLVER_STATUS_SUCCESS; ++run) {
      MUST(cudaMemcpyAsync(vectors.get(), original.get(), original.bytes(), cudaMemcpyDeviceToDevice, stream_));
      const Times time = Measure(1, [&] {
        status = Solve(n, count, vectors.get(), values.get(), device.get(), workspace, host.data(), info.get());
      });
      if (run > 0) times = {std::min(times.host, time.host), std::min(times.device, time.device)};
      const std::vector<float> result = ToHost(vectors.get(), n * n * count);
      if (first.empty()) first = result;
      equal = equal && std::memcmp(first.data(), result.data(), result.size() * sizeof(float)) == 0;
      for (int64_t i = 1; i < count; ++i) {
        equal = equal &&
                std::memcmp(result.data(), result.data() + i * n * n, static_cast<size_t>(n * n) * sizeof(float)) == 0;
      }
    }
    if (status != CUSOLVER_STATUS_SUCCESS) {
      std::printf("returned %d\n", static_cast<int>(status));
      return;
    }
    if (count == 1) alone = first;
    const bool as_alone = std::memcmp(first.data(), alone.data(), alone.size() * sizeof(float)) == 0;
    std::vector<int> infos(static_cast<size_t>(count));
    MUST(cudaMemcpyAsync(infos.data(), info.get(), infos.size() * sizeof(int), cudaMemcpyDeviceToHost, stream_));
    MUST(cudaStreamSynchronize(stream_));
    const long failed = std::count_if(infos.begin(), infos.end(), [](int i) { return i != 0; });
    const double not_orthogonal = NotOrthogonal(n, vectors.get());
    const double residual = Residual(n, original.get(), vectors.get(), values.get());
    std::printf("%10.3f %10.3f %10.3f %9.1e %9.1e %11s %9s %9.1f %9zu", times.host, times.device,
                times.device / static_cast<double>(count), not_orthogonal, residual, equal ? "yes" : "NO",
                as_alone ? "yes" : "NO", static_cast<double>(workspace.device) / 1048576, workspace.host);
    const bool wrong = failed != 0 || !(not_orthogonal < 1e-3) || !(residual < 1e-3);
    if (failed != 0) std::printf("  %ld matrices FAILED", failed);
    if (wrong) std::printf("  WRONG");
    std::puts("");
    std::fflush(stdout);
    failures += wrong ? 1 : 0;
  }

  // Returns the largest absolute value of the elements of V^T V - I, where V is `vectors`.
  double NotOrthogonal(int64_t n, const float* vectors) const {
    const Array<float> product(n * n);
    Multiply(true, n, n, vectors, vectors, false, product.get());
    const std::vector<float> host = ToHost(product.get(), n * n);
    double largest = 0;
    for (int64_t i = 0; i < n * n; ++i) {
      largest = std::max(largest, std::fabs(host[static_cast<size_t>(i)] - (i % (n + 1) == 0 ? 1.0 : 0.0)));
    }
    return largest;
  }

  // Returns the largest absolute value of the elements of A V - V diag(w), divided by the largest eigenvalue. A is `a`,
  // V is `vectors`, and w is `values`.
  double Residual(int64_t n, const float* a, const float* vectors, const float* values) const {
    const Array<float> product(n * n);
    Multiply(false, n, n, a, vectors, false, product.get());
    const std::vector<float> av = ToHost(product.get(), n * n);
    const std::vector<float> v = ToHost(vectors, n * n);
    const std::vector<float> w = ToHost(values, n);
    double largest = 0;
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<size_t>(j * n + i);
        largest =
            std::max(largest, std::fabs(static_cast<double>(av[at]) -
                                        static_cast<double>(w[static_cast<size_t>(j)]) * static_cast<double>(v[at])));
      }
    }
    return largest / std::fabs(static_cast<double>(w.back()));
  }

  void Capture() const {
    std::puts("\neigensolver during a capture, thread-local mode");
    for (const int64_t n : {int64_t{40}, int64_t{tiny_ ? 48 : 256}}) {
      constexpr int64_t kCount = 4;
      Workspace workspace;
      MUST(SolverBytes(n, kCount, &workspace));
      const Array<float> a(n * n * kCount);
      const Array<float> w(n * kCount);
      const Array<int> info(kCount);
      const Array<char> device(static_cast<int64_t>(workspace.device));
      std::vector<char> host(std::max<size_t>(workspace.host, 1));
      FillMatrices(n, kCount, a.get());
      MUST(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
      const cusolverStatus_t status =
          Solve(n, kCount, a.get(), w.get(), device.get(), workspace, host.data(), info.get());
      cudaGraph_t graph = nullptr;
      const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
      std::printf("n %lld: the solver returned %d, and cudaStreamEndCapture returned %s\n", static_cast<long long>(n),
                  static_cast<int>(status), cudaGetErrorName(ended));
      if (graph != nullptr) (void)cudaGraphDestroy(graph);
      (void)cudaGetLastError();
    }
  }

  // Makes calls on a thread whose capture mode is relaxed, while another thread captures in the global mode. Prints
  // which of these calls invalidate the capture.
  void CapturesOfOthers() const {
    std::printf("\ncalls in the relaxed mode, while another thread captures a blocking stream in the global mode\n");
    cudaStream_t captured = nullptr;
    MUST(cudaStreamCreateWithFlags(&captured, cudaStreamDefault));
    const Array<char> set(4);
    const auto attempt = [&](const char* name, const auto& call) {
      MUST(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
      MUST(cudaMemsetAsync(set.get(), 0, 4, captured));
      int returned = -1;
      std::thread([&] {
        cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
        MUST(cudaThreadExchangeStreamCaptureMode(&mode));
        returned = call();
      }).join();
      cudaGraph_t graph = nullptr;
      const cudaError_t ended = cudaStreamEndCapture(captured, &graph);
      std::printf("%-24s returned %d, and cudaStreamEndCapture returned %s\n", name, returned, cudaGetErrorName(ended));
      if (graph != nullptr) (void)cudaGraphDestroy(graph);
      (void)cudaGetLastError();
    };
    cublasHandle_t blas = nullptr;
    cusolverDnHandle_t solver = nullptr;
    cudaStream_t stream = nullptr;
    cudaEvent_t event = nullptr;
    void* memory = nullptr;
    attempt("cublasCreate", [&] { return static_cast<int>(cublasCreate(&blas)); });
    attempt("cublasDestroy", [&] { return static_cast<int>(cublasDestroy(blas)); });
    attempt("cusolverDnCreate", [&] { return static_cast<int>(cusolverDnCreate(&solver)); });
    attempt("cusolverDnDestroy", [&] { return static_cast<int>(cusolverDnDestroy(solver)); });
    attempt("cudaStreamCreate",
            [&] { return static_cast<int>(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); });
    attempt("cudaMallocAsync", [&] { return static_cast<int>(cudaMallocAsync(&memory, 4096, stream)); });
    attempt("cudaFreeAsync", [&] { return static_cast<int>(cudaFreeAsync(memory, stream)); });
    attempt("cudaStreamSynchronize", [&] { return static_cast<int>(cudaStreamSynchronize(stream)); });
    attempt("cudaStreamDestroy", [&] { return static_cast<int>(cudaStreamDestroy(stream)); });
    attempt("cudaEventCreate",
            [&] { return static_cast<int>(cudaEventCreateWithFlags(&event, cudaEventDisableTiming)); });
    attempt("cudaEventDestroy", [&] { return static_cast<int>(cudaEventDestroy(event)); });
    attempt("cudaMalloc", [&] { return static_cast<int>(cudaMalloc(&memory, 4096)); });
    attempt("cudaFree", [&] { return static_cast<int>(cudaFree(memory)); });
    attempt("cudaHostAlloc", [&] { return static_cast<int>(cudaHostAlloc(&memory, 4096, cudaHostAllocMapped)); });
    attempt("cudaFreeHost", [&] { return static_cast<int>(cudaFreeHost(memory)); });
    attempt("cudaDeviceSynchronize", [&] { return static_cast<int>(cudaDeviceSynchronize()); });
    MUST(cudaStreamDestroy(captured));
  }

  void Products() const {
    std::printf("\nbatched products of square matrices, Tflop/s\n%5s %6s %12s %12s\n", "n", "batch", "float32", "TF32");
    for (const int64_t n : tiny_ ? std::vector<int64_t>{16} : std::vector<int64_t>{128, 256, 512, 1024, 2048}) {
      const int64_t count = tiny_ ? 3 : std::max<int64_t>((int64_t{1} << 25) / (n * n), 4);
      const Array<float> a(n * n * count);
      const Array<float> c(n * n * count);
      FillMatrices(n, count, a.get());
      std::printf("%5lld %6lld", static_cast<long long>(n), static_cast<long long>(count));
      for (const cublasComputeType_t type : {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32}) {
        const Times time = Measure(4, [&] { Multiply(false, n, n, a.get(), a.get(), false, c.get(), count, type); });
        const double flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n * count);
        std::printf(" %12.4f", flops / (time.device * 1e-3) / 1e12);
      }
      std::puts("");
    }
  }

  void Copies() const {
    const int64_t bytes = tiny_ ? 1 << 16 : int64_t{1} << 30;
    const Array<char> from(bytes);
    const Array<char> to(bytes);
    MUST(cudaMemsetAsync(from.get(), 1, from.bytes(), stream_));
    const Times time = Measure(
        4, [&] { MUST(cudaMemcpyAsync(to.get(), from.get(), from.bytes(), cudaMemcpyDeviceToDevice, stream_)); });
    std::printf("\ncopy in device memory: %.1f GB/s read and written\n",
                2 * static_cast<double>(bytes) / (time.device * 1e-3) / 1e9);
  }

  bool tiny_;
  std::vector<float> alone_[2];  // by algorithm: eigenvectors from a batch of only one matrix of the current size
  cudaStream_t stream_ = nullptr;
  cublasHandle_t blas_ = nullptr;
  cusolverDnHandle_t solver_ = nullptr;
  cusolverDnParams_t params_ = nullptr;
  cudaEvent_t events_[2] = {};
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> sections(argv + 1, argv + argc);
  const bool tiny = !sections.empty() && sections[0] == "--tiny";
  if (tiny) sections.erase(sections.begin());
  for (const std::string& section : sections) {
    if (section[0] != '-') continue;
    std::fputs("usage: probe [--tiny] [workspaces|eigensolvers|single|capture|others|products|copies]...\n", stderr);
    return 2;
  }
  Probe(tiny).Run(sections);
  return failures == 0 ? 0 : 1;
}
