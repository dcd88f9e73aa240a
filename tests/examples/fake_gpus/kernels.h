// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Declarations with which the kernels of the examples compile as C++ and run on the fake CUDA. translate.py adds an
// #include of this file to each source file with kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>
#include <tuple>

#include "tests/cuda/fake/launch.h"

#undef __global__
#undef __device__
#define __global__
#define __device__

namespace fake_gpus {

struct Index {
  unsigned x;
};

}  // namespace fake_gpus

inline thread_local fake_gpus::Index blockIdx, blockDim, threadIdx;

namespace fake_gpus {

// translate.py replaces kernel<<<blocks, threads, shared, stream>>>(arguments) by Launch<&kernel>(blocks, threads,
// shared, stream)(arguments). The threads of a CUDA block can run one after another, because the kernels have no
// barriers.
template <auto kKernel>
class Launch;

template <typename... Arguments, void (*kKernel)(Arguments...)>
class Launch<kKernel> {
 public:
  Launch(int64_t blocks, unsigned threads, size_t, cudaStream_t stream)
      : blocks_(blocks), threads_(threads), stream_(stream) {}

  void operator()(Arguments... arguments) const {
    const unsigned threads = threads_;
    const auto run = [threads, all = std::make_tuple(arguments...)](int64_t block) {
      blockIdx.x = static_cast<unsigned>(block);
      blockDim.x = threads;
      for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) std::apply(kKernel, all);
    };
    (void)fake_cuda_launch(stream_, blocks_, typeid(Launch), run);  // cudaGetLastError() returns the error
  }

 private:
  int64_t blocks_;
  unsigned threads_;
  cudaStream_t stream_;
};

}  // namespace fake_gpus
