// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/filter_pass.h"

#include <cmath>

#include "core/backend/cpu/stretch.h"

namespace shampoo {
namespace {

template <typename Real>
void UpdateMoment(Real keep, Real add, const Real* g, Real* v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) v[i] = keep * v[i] + add * (g[i] * g[i]);
}

template <typename Real>
void Filter(Real keep, Real add, Real correction, const Real* g, Real* e, Real* h, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    e[i] = keep * e[i] + add * g[i];
    h[i] = e[i] / correction;
  }
}

// D = H / (sqrt(V / c) + epsilon)
template <typename Real>
void GraftDirection(Real correction, Real epsilon, const Real* h, const Real* v, Real* d, int64_t n) {
  for (int64_t i = 0; i < n; ++i) d[i] = h[i] / (std::sqrt(v[i] / correction) + epsilon);
}

}  // namespace

template <typename Real>
double FilterGradient(const StepProgram& program, const Block& block, const BlockData<Real>& g, char* arena, Real* h,
                      Real* d) {
  const bool filtered = block.filtered_grad.present() && program.filter_keep != 0;
  const bool has_moment = block.grafting.present();
  MutableOperand<Real> filtered_grad(arena + block.filtered_grad.offset, block.filtered_grad.dtype);
  MutableOperand<Real> moment(arena + block.grafting.offset, block.grafting.dtype);
  Real direction[kStretch];
  double square = 0;

  // Rows of a view, or the whole dense block as one row.
  const bool rows = block.order() == 2 && g.ld != block.shape[1];
  const int64_t row_length = rows ? block.shape[1] : block.elements;
  for (int64_t row = 0; row * row_length < block.elements; ++row) {
    ForEachStretch(row_length, [&](int64_t first, int64_t n) {
      const Real* const gradient = g.data + row * (rows ? g.ld : row_length) + first;
      const int64_t at = row * row_length + first;
      const Real* v = nullptr;
      if (has_moment) {
        Real* const moments = moment.Open(at, n);
        UpdateMoment(static_cast<Real>(program.moment_keep), static_cast<Real>(program.moment_add), gradient, moments,
                     n);
        moment.Close(at, n);
        v = moments;
      }
      const Real* filtered_here = gradient;
      if (filtered) {
        Filter(static_cast<Real>(program.filter_keep), static_cast<Real>(1 - program.filter_keep),
               static_cast<Real>(program.filter_correction), gradient, filtered_grad.Open(at, n), h + at, n);
        filtered_grad.Close(at, n);
        filtered_here = h + at;
      } else if (h != nullptr) {
        for (int64_t i = 0; i < n; ++i) h[at + i] = gradient[i];
        filtered_here = h + at;
      }
      if (program.grafting == Grafting::kNone) return;
      const Real* result = filtered_here;
      if (has_moment) {
        Real* const target = d != nullptr ? d + at : direction;
        GraftDirection(static_cast<Real>(program.moment_correction), static_cast<Real>(program.grafting_epsilon),
                       filtered_here, v, target, n);
        result = target;
      } else if (d != nullptr && d != h) {
        for (int64_t i = 0; i < n; ++i) d[at + i] = filtered_here[i];
      }
      square += SumOfSquares(result, n);
    });
  }
  return square;
}

template double FilterGradient<float>(const StepProgram&, const Block&, const BlockData<float>&, char*, float*, float*);
template double FilterGradient<double>(const StepProgram&, const Block&, const BlockData<double>&, char*, double*,
                                       double*);

}  // namespace shampoo
