// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "gradients.h"

namespace {

// Each value is a scaled sum of the four 16-bit parts of a random number, which splitmix64 computes from seed and
// index. Such sums are nearly normally distributed.
__global__ void Random(int64_t count, float* values, float scale, uint64_t seed) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  uint64_t z = (seed * 0x100000001b3u + static_cast<uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  float sum = 0;
  for (int part = 0; part < 4; ++part) sum += static_cast<float>(z >> (16 * part) & 0xffff) / 65536.0f - 0.5f;
  values[i] = sum * scale * 1.7320508f;  // sqrt(3), because the variance of the sum is 4 / 12
}

}  // namespace

void random_values(int64_t count, float* values, float scale, uint64_t seed, cudaStream_t stream) {
  const int threads = 256;
  Random<<<static_cast<unsigned>((count + threads - 1) / threads), threads, 0, stream>>>(count, values, scale, seed);
  check_cuda(cudaGetLastError(), "random numbers");
}
