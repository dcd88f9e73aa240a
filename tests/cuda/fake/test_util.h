// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <array>

#include "core/backend/cuda/plugin/cta.h"
#include "tests/cuda/fake/control.h"

namespace shampoo::cuda {

// The body of a kernel in which each CTA multiplies four floats by `by`.
struct Scale {
  float* data;
  float by;
  void operator()(const Cta& cta) const {
    cta.ForEach(4, [&](int64_t i) { data[cta.index() * 4 + i] *= by; });
  }
};

// Resets the fake, and creates two streams, an event, and device memory with 64 floats that are all 1.
struct FakeCudaFixture {
  FakeCudaFixture() {
    fake_cuda_reset();
    fake_cuda_set_order(FAKE_CUDA_AS_LATE_AS_POSSIBLE, 1);
    for (cudaStream_t& s : stream) REQUIRE(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
    REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&data), sizeof ones) == cudaSuccess);
    ones.fill(1);
    REQUIRE(cudaMemcpy(data, ones.data(), sizeof ones, cudaMemcpyHostToDevice) == cudaSuccess);
  }
  ~FakeCudaFixture() { fake_cuda_reset(); }

  float First() const {
    float value = 0;
    CHECK(cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost) == cudaSuccess);
    return value;
  }

  cudaStream_t stream[2];
  cudaEvent_t event;
  float* data;
  std::array<float, 64> ones;
};

}  // namespace shampoo::cuda
