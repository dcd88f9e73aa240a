// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

// The reduction of a symmetric matrix to tridiagonal form. loops.h explains the rules for this code.
#include "core/base/kernels/kernels.h"

namespace shampoo {
namespace {

#ifdef __AVX512F__
constexpr int kWide = TridiagonalKernels::kRowMultiple;
static_assert(kWide == 16);
// A vector of 16 floats, with the alignment of a single float.
typedef float Wide __attribute__((vector_size(64), aligned(4), may_alias));

// In row i, the first i + 1 elements of up_to and the first i elements of below are 1. All other elements are 0.
struct Masks {
  float up_to[kWide][kWide] = {};
  float below[kWide][kWide] = {};
  constexpr Masks() {
    for (int i = 0; i < kWide; ++i) {
      for (int j = 0; j <= i; ++j) up_to[i][j] = 1;
      for (int j = 0; j < i; ++j) below[i][j] = 1;
    }
  }
};
constexpr Masks kMasks;

// y[r] <- y[r] + the sum of the lanes of sum[r]. The sum is computed in four rounds. Each round adds the upper half of
// the remaining lanes to the lower half.
template <int kRows>
inline void AddSums(const Wide* sum, float* y) {
  if constexpr (kRows == 4) {
    const Wide first =
        __builtin_shufflevector(sum[0], sum[1], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
        __builtin_shufflevector(sum[0], sum[1], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    const Wide second =
        __builtin_shufflevector(sum[2], sum[3], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
        __builtin_shufflevector(sum[2], sum[3], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    const Wide quarters =
        __builtin_shufflevector(first, second, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
        __builtin_shufflevector(first, second, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    const Wide pairs =
        quarters + __builtin_shufflevector(quarters, quarters, 2, 3, 2, 3, 6, 7, 6, 7, 10, 11, 10, 11, 14, 15, 14, 15);
    const Wide sums = pairs + __builtin_shufflevector(pairs, pairs, 1, 1, 1, 1, 5, 5, 5, 5, 9, 9, 9, 9, 13, 13, 13, 13);
    for (int r = 0; r < 4; ++r) y[r] += sums[4 * r];
  } else {
    static_assert(kRows == 1);
    float lanes[kWide];
    *reinterpret_cast<Wide*>(lanes) = sum[0];
    for (int half = kWide / 2; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
    }
    y[0] += lanes[0];
  }
}

// Updates rows [first, first + kRows) of the lower triangle of A: A <- A - v w^T - w v^T. Then adds to y the products
// of x with the updated elements of A in these rows and, by symmetry, in the columns with the same indices. Only row
// `first` may have an index that is a multiple of kWide.
template <int kRows>
inline void UpdateRows(float* __restrict a, int64_t ld, int64_t first, const float* __restrict v,
                       const float* __restrict w, const float* __restrict x, float* __restrict y) {
  Wide sum[kRows];
  Wide v_i[kRows];
  Wide w_i[kRows];
  Wide x_i[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    sum[r] = Wide{};
    v_i[r] = Wide{} + v[first + r];
    w_i[r] = Wide{} + w[first + r];
    x_i[r] = Wide{} + x[first + r];
  }
  float* __restrict rows = a + first * ld;
  const int64_t full = first / kWide * kWide;
  for (int64_t j = 0; j < full; j += kWide) {
    const Wide v_j = *reinterpret_cast<const Wide*>(v + j);
    const Wide w_j = *reinterpret_cast<const Wide*>(w + j);
    const Wide x_j = *reinterpret_cast<const Wide*>(x + j);
    Wide y_j = *reinterpret_cast<const Wide*>(y + j);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      Wide* const at = reinterpret_cast<Wide*>(rows + r * ld + j);
      const Wide updated = *at - (v_i[r] * w_j + w_i[r] * v_j);
      *at = updated;
      sum[r] += updated * x_j;
      y_j += updated * x_i[r];
    }
    *reinterpret_cast<Wide*>(y + j) = y_j;
  }
  const Wide v_j = *reinterpret_cast<const Wide*>(v + full);
  const Wide w_j = *reinterpret_cast<const Wide*>(w + full);
  const Wide x_j = *reinterpret_cast<const Wide*>(x + full);
  Wide y_j = *reinterpret_cast<const Wide*>(y + full);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    Wide* const at = reinterpret_cast<Wide*>(rows + r * ld + full);
    const int64_t row = first + r - full;
    const Wide updated = (*at - (v_i[r] * w_j + w_i[r] * v_j)) * *reinterpret_cast<const Wide*>(kMasks.up_to[row]);
    *at = updated;
    sum[r] += updated * x_j;
    y_j += updated * *reinterpret_cast<const Wide*>(kMasks.below[row]) * x_i[r];
  }
  *reinterpret_cast<Wide*>(y + full) = y_j;
  AddSums<kRows>(sum, y + first);
}

// Returns the dot product of the first n elements of a and b. The elements of a and b from index n to the next multiple
// of kWide must be 0.
inline double DotPadded(const float* a, const float* b, int64_t n) {
  double lanes[kWide] = {};
  for (int64_t i = 0; i < n; i += kWide) {
    for (int l = 0; l < kWide; ++l) lanes[l] += static_cast<double>(a[i + l]) * static_cast<double>(b[i + l]);
  }
  for (int half = kWide / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

void ReduceToTridiagonal(float* a, int64_t ld, int64_t n, double* d, double* e, float* tau, float* work) {
  float* v = work;
  float* w = v + ld;
  float* x = w + ld;
  float* y = x + ld;
  for (int64_t i = 0; i < 4 * ld; ++i) work[i] = 0;
  // The next Householder reflector x depends only on the next row of the matrix A. So the update of A by the previous
  // reflector v, A <- A - v w^T - w v^T, is deferred until x is known. Then one pass over A applies the update and
  // computes y = A x.
  for (int64_t i = n - 1; i >= 0; --i) {
    float* const row = a + i * ld;
    const float v_i = v[i];
    const float w_i = w[i];
    for (int64_t j = 0; j <= i; ++j) row[j] -= v_i * w[j] + w_i * v[j];
    d[i] = static_cast<double>(row[i]);
    if (i == 0) break;
    const int64_t padded = (i + kWide - 1) / kWide * kWide;
    for (int64_t j = 0; j < i; ++j) x[j] = row[j];
    for (int64_t j = i; j < padded + kWide && j < ld; ++j) x[j] = 0;
    const double alpha = static_cast<double>(x[i - 1]);
    x[i - 1] = 0;
    const double square = DotPadded(x, x, i);
    x[i - 1] = 1;
    double reflection = 0;
    double off_diagonal = alpha;
    double scale = 0;
    if (square > 0) {
      const double norm = __builtin_sqrt(alpha * alpha + square);
      off_diagonal = alpha > 0 ? -norm : norm;
      reflection = (off_diagonal - alpha) / off_diagonal;
      scale = 1 / (alpha - off_diagonal);
    }
    for (int64_t j = 0; j + 1 < i; ++j) x[j] = static_cast<float>(static_cast<double>(x[j]) * scale);
    for (int64_t j = 0; j < i; ++j) row[j] = x[j];
    e[i - 1] = off_diagonal;
    tau[i - 1] = static_cast<float>(reflection);

    for (int64_t j = 0; j < padded; ++j) y[j] = 0;
    int64_t first = 0;
    for (; first + 4 <= i; first += 4) UpdateRows<4>(a, ld, first, v, w, x, y);
    for (; first < i; ++first) UpdateRows<1>(a, ld, first, v, w, x, y);
    // w <- tau (y - tau / 2 (y^T x) x)
    const float factor = static_cast<float>(reflection);
    const float middle = static_cast<float>(reflection / 2 * DotPadded(x, y, i));
    for (int64_t j = 0; j < i; ++j) w[j] = factor * (y[j] - middle * x[j]);
    for (int64_t j = i; j < padded; ++j) w[j] = 0;
    float* const last = v;
    v = x;
    x = last;
  }
}
constexpr auto kReduce = &ReduceToTridiagonal;
#else
// Without AVX-512, LAPACK's reduction is faster.
constexpr decltype(TridiagonalKernels::reduce) kReduce = nullptr;
#endif

}  // namespace
}  // namespace shampoo
