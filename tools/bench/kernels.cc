// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bench {
namespace {

// Number of independent chains of multiply-adds. 8 chains keep two multiply-add units with a latency of 4 cycles busy.
// With 12 chains, the units stay busy even while a chain stalls.
constexpr int64_t kChains = 12;
constexpr float kFactor = 0.999f;
constexpr float kTerm = 0.001f;

// Vectors of 128 bits, for which every supported processor has instructions. The compiler may combine a multiplication
// and an addition into one instruction (-ffp-contract=fast in CMakeLists.txt).
typedef float Vector4 __attribute__((vector_size(16)));

float MultiplyAddBaseline(int64_t rounds) {
  const Vector4 factor = {kFactor, kFactor, kFactor, kFactor};
  const Vector4 term = {kTerm, kTerm, kTerm, kTerm};
  Vector4 chain[kChains] = {};
  for (int64_t i = 0; i < rounds; ++i) {
    for (int c = 0; c < kChains; ++c) chain[c] = chain[c] * factor + term;
  }
  for (int c = 1; c < kChains; ++c) chain[0] += chain[c];
  return chain[0][0] + chain[0][1] + chain[0][2] + chain[0][3];
}

void UpdateBaseline(float* a, const float* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) a[i] = kFactor * a[i] + b[i];
}

constexpr Kernels kBaseline = {"baseline", MultiplyAddBaseline, kChains * 4 * 2, UpdateBaseline};

#if defined(__x86_64__)

__attribute__((target("avx2,fma"))) float MultiplyAddAvx2(int64_t rounds) {
  const __m256 factor = _mm256_set1_ps(kFactor);
  const __m256 term = _mm256_set1_ps(kTerm);
  __m256 chain[kChains];
  for (int c = 0; c < kChains; ++c) chain[c] = _mm256_setzero_ps();
  for (int64_t i = 0; i < rounds; ++i) {
    for (int c = 0; c < kChains; ++c) chain[c] = _mm256_fmadd_ps(chain[c], factor, term);
  }
  for (int c = 1; c < kChains; ++c) chain[0] = _mm256_add_ps(chain[0], chain[c]);
  return _mm256_cvtss_f32(chain[0]);
}

__attribute__((target("avx2,fma"))) void UpdateAvx2(float* a, const float* b, int64_t n) {
  const __m256 factor = _mm256_set1_ps(kFactor);
  for (int64_t i = 0; i < n; i += 8) {
    _mm256_storeu_ps(a + i, _mm256_fmadd_ps(_mm256_loadu_ps(a + i), factor, _mm256_loadu_ps(b + i)));
  }
}

constexpr Kernels kAvx2 = {"avx2", MultiplyAddAvx2, kChains * 8 * 2, UpdateAvx2};

__attribute__((target("avx512f"))) float MultiplyAddAvx512(int64_t rounds) {
  const __m512 factor = _mm512_set1_ps(kFactor);
  const __m512 term = _mm512_set1_ps(kTerm);
  __m512 chain[kChains];
  for (int c = 0; c < kChains; ++c) chain[c] = _mm512_setzero_ps();
  for (int64_t i = 0; i < rounds; ++i) {
    for (int c = 0; c < kChains; ++c) chain[c] = _mm512_fmadd_ps(chain[c], factor, term);
  }
  for (int c = 1; c < kChains; ++c) chain[0] = _mm512_add_ps(chain[0], chain[c]);
  return _mm512_cvtss_f32(chain[0]);
}

__attribute__((target("avx512f"))) void UpdateAvx512(float* a, const float* b, int64_t n) {
  const __m512 factor = _mm512_set1_ps(kFactor);
  for (int64_t i = 0; i < n; i += 16) {
    _mm512_storeu_ps(a + i, _mm512_fmadd_ps(_mm512_loadu_ps(a + i), factor, _mm512_loadu_ps(b + i)));
  }
}

constexpr Kernels kAvx512 = {"avx512", MultiplyAddAvx512, kChains * 16 * 2, UpdateAvx512};

#endif

}  // namespace

const Kernels& KernelsOfThisCpu() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kAvx2;
#endif
  return kBaseline;
}

}  // namespace bench
