// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

// The functions of TridiagonalKernels except `reduce`. kernels.h describes what they compute, and loops.h describes the
// rules for this code.
#include "core/base/kernels/kernels.h"

namespace shampoo {
namespace {

constexpr int kShifts = TridiagonalKernels::kShifts;
constexpr int kPoleLanes = TridiagonalKernels::kLanes;
constexpr int kColumns = TridiagonalKernels::kColumns;

// Factorizes T - shift I = L D L^T without pivoting, for every shift, and counts the negative pivots in D. Their number
// is the number of eigenvalues of T below the shift (Sylvester's law of inertia).
void CountBelow(const double* d, const double* e, double tiny, int64_t n, const double* shifts, double* counts) {
  double pivot[kShifts];
  double count[kShifts];
  for (int l = 0; l < kShifts; ++l) {
    pivot[l] = 1;
    count[l] = 0;
  }
  for (int64_t i = 0; i < n; ++i) {
    const double square = i > 0 ? e[i - 1] * e[i - 1] : 0;
    for (int l = 0; l < kShifts; ++l) {
      const double next = (d[i] - shifts[l]) - square / pivot[l];
      const double magnitude = next < 0 ? -next : next;
      pivot[l] = magnitude < tiny ? -tiny : next;
      count[l] += pivot[l] < 0 ? 1.0 : 0.0;
    }
  }
  for (int l = 0; l < kShifts; ++l) counts[l] = count[l];
}

void InversePivots(const double* d, const double* e, int64_t n, const double* shifts, int64_t poles, double* inverses) {
  for (int64_t first = 0; first < poles; first += kPoleLanes) {
    double inverse[kPoleLanes] = {};
    for (int64_t i = n - 1; i >= 0; --i) {
      const double square = i + 1 < n ? e[i] * e[i] : 0;
      double* const row = inverses + i * poles + first;
      for (int l = 0; l < kPoleLanes; ++l) {
        inverse[l] = 1 / ((d[i] + shifts[first + l]) - square * inverse[l]);
        row[l] = inverse[l];
      }
    }
  }
}

void AddSolution(const double* e, const double* inverses, int64_t n, int64_t poles, const double* weights,
                 const double* b, double* scratch, double* x) {
  double z[kPoleLanes] = {};
  for (int64_t i = n - 1; i >= 0; --i) {
    const double* const below = inverses + (i + 1) * poles;
    for (int l = 0; l < kPoleLanes; ++l) {
      z[l] = i + 1 < n ? b[i] - e[i] * below[l] * z[l] : b[i];
      scratch[i * kPoleLanes + l] = z[l];
    }
  }
  double solution[kPoleLanes] = {};
  for (int64_t i = 0; i < n; ++i) {
    const double* const here = inverses + i * poles;
    const double off_diagonal = i > 0 ? e[i - 1] : 0;
    double weighted[kPoleLanes];
    for (int l = 0; l < kPoleLanes; ++l) {
      solution[l] = (scratch[i * kPoleLanes + l] - off_diagonal * solution[l]) * here[l];
      weighted[l] = weights[l] * solution[l];
    }
    for (int half = kPoleLanes / 2; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) weighted[l] += weighted[l + half];
    }
    x[i] += weighted[0];
  }
}

void GrowResolvents(const double* e, const double* inverses, int64_t first, int64_t count, int64_t poles,
                    const double* weights, double* corner, double* growth, float* factors, double* generators,
                    double* sums) {
  for (int64_t j = 0; j < poles; ++j) growth[j] = 1;
  for (int64_t i = 0; i < poles * kColumns; ++i) generators[i] = 0;
  for (int64_t m = 0; m < count; ++m) {
    const double* const inverse = inverses + (first + m) * poles;
    const double off_diagonal = first + m > 0 ? e[first + m - 1] : 0;
    double* const sum = sums + m * kColumns;
    double ratio[TridiagonalKernels::kMaxPoles];
    for (int64_t j = 0; j < poles; ++j) {
      ratio[j] = -off_diagonal * inverse[j];
      corner[j] = weights[j] * inverse[j] + ratio[j] * ratio[j] * corner[j];
      growth[j] *= ratio[j];
      factors[m * poles + j] = static_cast<float>(growth[j]);
    }
    double total[kColumns] = {};
    for (int64_t j = 0; j < poles; ++j) {
      double* const generator = generators + j * kColumns;
      const double r = ratio[j];
      for (int i = 0; i < kColumns; ++i) generator[i] *= r;
      generator[m] = corner[j];
      for (int i = 0; i < kColumns; ++i) total[i] += generator[i];
    }
    for (int i = 0; i < kColumns; ++i) sum[i] = total[i];
  }
}

}  // namespace
}  // namespace shampoo
