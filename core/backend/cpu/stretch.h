// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/convert.h"

namespace shampoo {

// Elements that an elementwise pass treats at a time: few enough that all its operands stay in the first-level cache,
// enough that a switch over dtypes costs nothing.
inline constexpr int64_t kStretch = 512;

// `work(first, count)` for consecutive stretches of [0, n).
template <typename Work>
void ForEachStretch(int64_t n, Work&& work) {
  for (int64_t first = 0; first < n; first += kStretch) work(first, n - first < kStretch ? n - first : kStretch);
}

// A vector of some dtype that is read, or read and written, as Real, stretch by stretch. Where the dtype is Real
// nothing is copied.
template <typename Real>
class Operand {
 public:
  Operand(const void* base, Dtype dtype) : base_(base), dtype_(dtype) {}

  const Real* Read(int64_t first, int64_t count) {
    const void* at = ElementAt(base_, dtype_, first);
    if (dtype_ == DtypeOf<Real>()) return static_cast<const Real*>(at);
    Widen(at, dtype_, buffer_, count);
    return buffer_;
  }

 protected:
  const void* base_;
  Dtype dtype_;
  Real buffer_[kStretch];
};

template <typename Real>
class MutableOperand : public Operand<Real> {
 public:
  MutableOperand(void* base, Dtype dtype) : Operand<Real>(base, dtype), target_(base) {}

  // The old elements, to be changed in place.
  Real* Open(int64_t first, int64_t count) { return const_cast<Real*>(this->Read(first, count)); }
  // Room for new elements.
  Real* OpenNew(int64_t first) {
    if (this->dtype_ == DtypeOf<Real>()) return static_cast<Real*>(ElementAt(target_, this->dtype_, first));
    return this->buffer_;
  }
  // Stores what Open or OpenNew gave out: each element rounded once.
  void Close(int64_t first, int64_t count) {
    if (this->dtype_ != DtypeOf<Real>()) {
      Narrow(this->buffer_, ElementAt(target_, this->dtype_, first), this->dtype_, count);
    }
  }

 private:
  void* target_;
};

// Sum of squares in float64, in a fixed order.
template <typename Real>
double SumOfSquares(const Real* values, int64_t n) {
  constexpr int64_t kLanes = 8;
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const double value = static_cast<double>(values[i + lane]);
      lanes[lane] += value * value;
    }
  }
  for (; i < n; ++i) lanes[0] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

}  // namespace shampoo
