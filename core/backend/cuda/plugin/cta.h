// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/backend/cuda/plugin/kernel_list.h"

// A kernel is written as a body: a struct whose call operator does the work of one cooperative thread array (CTA, also
// called a thread block). The operator calls functions of Cta: reductions, loops whose iterations may run in any order,
// and Once(). nvcc compiles a body for a GPU. For the fake CUDA of the tests, a C++ compiler compiles the same source.
// The macro SHAMPOO_CUDA_FAKE is the name of the header that defines Cta, LoadKernel() and LaunchKernel() for the fake.
//
//   struct Scale {
//     float* data;
//     SHAMPOO_DEVICE void operator()(const Cta& cta) const {
//       cta.ForEach(1024, [&](int64_t i) { data[cta.index() * 1024 + i] *= 2; });
//     }
//   };
//   SHAMPOO_CUDA_TRY(Launch(stream, grid, Scale{data}));
#if defined(SHAMPOO_CUDA_FAKE)
#define SHAMPOO_DEVICE
#include SHAMPOO_CUDA_FAKE
#elif defined(__CUDACC__)
#define SHAMPOO_DEVICE __device__

namespace shampoo::cuda {

inline constexpr int kCtaThreads = 256;
// How many elements a thread loads before it works on the first of them.
inline constexpr int kLoadsAtOnce = 4;

// The threads of a CTA. When a loop, a reduction or Once() returns, every thread sees all values that any thread of the
// CTA has written before this call or during it.
class Cta {
 public:
  __device__ int64_t index() const { return blockIdx.x; }

  // Calls work(i) for every i in [0, count).
  template <typename Work>
  __device__ void ForEach(int64_t count, const Work& work) const {
    for (int64_t i = threadIdx.x; i < count; i += kCtaThreads) work(i);
    __syncthreads();
  }
  // Calls work(i, load(i)) for every i in [0, count). A thread loads several elements before it works on the first of
  // them, because a single load at a time leaves most of the memory's bandwidth unused. Therefore work(i, ...) must not
  // write data that load reads for another i.
  template <typename Load, typename Work>
  __device__ void ForEachLoaded(int64_t count, const Load& load, const Work& work) const {
    OverLoaded(count, load, work);
    __syncthreads();
  }
  // Calls work() on one thread.
  template <typename Work>
  __device__ void Once(const Work& work) const {
    if (threadIdx.x == 0) work();
    __syncthreads();
  }
  // Makes the host see all earlier writes of the calling thread before it sees later writes of this thread.
  __device__ static void FenceHost() { __threadfence_system(); }
  // Returns the sum of term(i) to every thread. The order of the additions is fixed.
  template <typename Term>
  __device__ double Sum(int64_t count, const Term& term) const {
    double sum = 0;
    for (int64_t i = threadIdx.x; i < count; i += kCtaThreads) sum += term(i);
    return Reduce(sum, [](double a, double b) { return a + b; });
  }
  // Returns the sum of term(i, load(i)), like Sum(). Loads elements like ForEachLoaded().
  template <typename Load, typename Term>
  __device__ double SumLoaded(int64_t count, const Load& load, const Term& term) const {
    double sum = 0;
    OverLoaded(count, load, [&](int64_t i, const auto& loaded) { sum += term(i, loaded); });
    return Reduce(sum, [](double a, double b) { return a + b; });
  }
  // Returns the sum of term(i), modulo 2^64, to every thread.
  template <typename Term>
  __device__ uint64_t WrappingSum(int64_t count, const Term& term) const {
    uint64_t sum = 0;
    for (int64_t i = threadIdx.x; i < count; i += kCtaThreads) sum += term(i);
    return Reduce(sum, [](uint64_t a, uint64_t b) { return a + b; });
  }
  // Returns the largest term(i), or 0 if `count` is 0. Terms are bit patterns of magnitudes, so NaN is above infinity.
  template <typename Term>
  __device__ uint64_t Largest(int64_t count, const Term& term) const {
    uint64_t largest = 0;
    OverLoaded(count, term, [&](int64_t, uint64_t next) { largest = next > largest ? next : largest; });
    return Reduce(largest, [](uint64_t a, uint64_t b) { return a > b ? a : b; });
  }
  // Returns the smallest i for which holds(i) is true, or `count` if there is none.
  template <typename Holds>
  __device__ int64_t First(int64_t count, const Holds& holds) const {
    int64_t first = count;
    for (int64_t i = threadIdx.x; i < count && first == count; i += kCtaThreads) {
      if (holds(i)) first = i;
    }
    return Reduce(first, [](int64_t a, int64_t b) { return a < b ? a : b; });
  }

 private:
  template <typename Load, typename Work>
  __device__ static void OverLoaded(int64_t count, const Load& load, const Work& work) {
    constexpr int64_t kStride = int64_t{kLoadsAtOnce} * kCtaThreads;
    int64_t i = threadIdx.x;
    for (; i + kStride - kCtaThreads < count; i += kStride) {
      decltype(load(i)) loaded[kLoadsAtOnce];
#pragma unroll
      for (int k = 0; k < kLoadsAtOnce; ++k) loaded[k] = load(i + k * kCtaThreads);
#pragma unroll
      for (int k = 0; k < kLoadsAtOnce; ++k) work(i + k * kCtaThreads, loaded[k]);
    }
    for (; i < count; i += kCtaThreads) work(i, load(i));
  }

  template <typename Value, typename Combine>
  __device__ Value Reduce(Value value, const Combine& combine) const {
    __shared__ Value shared[kCtaThreads];
    shared[threadIdx.x] = value;
    __syncthreads();
    for (int half = kCtaThreads / 2; half > 0; half /= 2) {
      if (threadIdx.x < half) shared[threadIdx.x] = combine(shared[threadIdx.x], shared[threadIdx.x + half]);
      __syncthreads();
    }
    const Value result = shared[0];
    __syncthreads();
    return result;
  }
};

template <typename Body>
__global__ void __launch_bounds__(kCtaThreads) RunBody(const __grid_constant__ Body body) {
  body(Cta());
}

// Loads the kernel of a body onto the current device.
template <typename Body>
cudaError_t LoadKernel() {
  cudaFuncAttributes unused;
  return cudaFuncGetAttributes(&unused, reinterpret_cast<const void*>(&RunBody<Body>));
}

template <typename Body>
cudaError_t LaunchKernel(cudaStream_t stream, int64_t ctas, const Body& body) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(ctas));
  config.blockDim = dim3(kCtaThreads);
  config.stream = stream;
  // cudaLaunchKernelEx returns the error of this launch. cudaGetLastError after <<<>>> would also return errors of
  // earlier calls by other code.
  return cudaLaunchKernelEx(&config, RunBody<Body>, body);
}

}  // namespace shampoo::cuda
#else
#define SHAMPOO_DEVICE  // the including file is host code, which contains no kernels
#endif

#if defined(SHAMPOO_CUDA_FAKE) || defined(__CUDACC__)
namespace shampoo::cuda {

// Adds the kernel of a body to the list of all kernels. Launch() instantiates this variable for every launched body.
template <typename Body>
inline const KernelEntry kKernelEntry(LoadKernel<Body>);

// Enqueues the kernel of a body, with `ctas` CTAs.
template <typename Body>
cudaError_t Launch(cudaStream_t stream, int64_t ctas, const Body& body) {
  static_assert(sizeof(Body) <= 4096, "a kernel can have at most 4096 bytes of parameters");
  (void)&kKernelEntry<Body>;
  return ctas == 0 ? cudaSuccess : LaunchKernel(stream, ctas, body);
}

}  // namespace shampoo::cuda
#endif
