// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/roots/resolvent.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/round_up.h"

namespace shampoo {
namespace {

constexpr int kShifts = TridiagonalKernels::kShifts;
// BoundEigenvalues() first compares the least eigenvalue with 0 and with norm * 4^-i for i = 14, 13, ..., 0, where norm
// is the number g of EigenvalueBounds. A smaller positive number is not needed: 4^-14 = 2^-28, and IsSuitable() returns
// true only for condition numbers up to 2^27.
constexpr int kPositiveSteps = 14;
constexpr double kPrecision = 0x1p-40;

// Finds which two adjacent points of a sequence enclose the least eigenvalue.
class Bisection {
 public:
  using Points = std::array<double, kShifts>;

  Bisection(const Tridiagonal& t, double norm) : t_(t), tiny_(std::max(norm, 1e-100) * 1e-200) {}

  // Returns the index of the first point that is above the least eigenvalue, or kShifts if there is no such point. The
  // points must be in ascending order.
  int FirstAbove(const Points& points) const {
    Points counts;
    BestKernels().tridiagonal.count_below(t_.d, t_.e, tiny_, t_.n, points.data(), counts.data());
    int first = 0;
    while (first < kShifts && counts[static_cast<size_t>(first)] == 0) ++first;
    return first;
  }

 private:
  const Tridiagonal& t_;
  double tiny_;
};

}  // namespace

EigenvalueBounds BoundEigenvalues(const Tridiagonal& t) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (int64_t i = 0; i < t.n; ++i) {  // Gershgorin's circles
    const double radius = (i > 0 ? std::fabs(t.e[i - 1]) : 0) + (i + 1 < t.n ? std::fabs(t.e[i]) : 0);
    low = std::min(low, t.d[i] - radius);
    high = std::max(high, t.d[i] + radius);
  }
  const double norm = std::max(std::fabs(low), std::fabs(high));
  const Bisection bisection(t, norm);
  Bisection::Points points{};
  for (int i = 1; i < kShifts; ++i) points[static_cast<size_t>(i)] = std::ldexp(norm, 2 * (i - 1 - kPositiveSteps));
  const int first = bisection.FirstAbove(points);
  if (first > 0) return {points[static_cast<size_t>(first - 1)], high};
  // The least eigenvalue is negative. If it is negative only because of rounding, it is close to 0, so some of the
  // points are close to 0.
  for (int i = 0; i < kShifts; ++i) points[static_cast<size_t>(i)] = -std::ldexp(norm, -2 * i);
  const int above = bisection.FirstAbove(points);
  double lower = above == 0 ? std::min(low, -norm) : points[static_cast<size_t>(above - 1)];
  double upper = above == kShifts ? 0 : points[static_cast<size_t>(above)];
  while (upper - lower > kPrecision * norm) {
    const double step = (upper - lower) / (kShifts + 1);
    for (int i = 0; i < kShifts; ++i) points[static_cast<size_t>(i)] = lower + step * (i + 1);
    const int next = bisection.FirstAbove(points);
    upper = next == kShifts ? upper : points[static_cast<size_t>(next)];
    lower = next == 0 ? lower : points[static_cast<size_t>(next - 1)];
  }
  return {lower, high};
}

bool ResolventSum::IsSuitable(const EigenvalueBounds& bounds, double shift) {
  // Limits the eigenvalues of T + shift I, so that Y = (T + shift I)^(-1/2) is in the range of float32.
  constexpr double kRange = 0x1p40;
  const double least = bounds.least + shift;
  const double largest = bounds.largest + shift;
  return least >= 1 / kRange && largest <= kRange && largest <= kLargestCondition * least;
}

ResolventSum::ResolventSum(const Tridiagonal& t, const EigenvalueBounds& bounds, double shift, double* memory)
    : t_(t), inverses_(memory) {
  const double least = bounds.least + shift;
  const double condition = (bounds.largest + shift) / least;
  const int q = std::max(1, std::ilogb(condition) + (condition > std::ldexp(1.0, std::ilogb(condition)) ? 1 : 0));
  const ZolotarevSum& sum = ZolotarevSum::ForCondition(q);
  const double scale = std::sqrt(least);
  largest_ = 1 / scale;
  poles_ = RoundUp(sum.count, TridiagonalKernels::kLanes);
  std::array<double, ZolotarevSum::kMaxPoles> shifts;
  for (int64_t j = 0; j < poles_; ++j) {
    const auto from = static_cast<size_t>(std::min<int64_t>(j, sum.count - 1));
    shifts[static_cast<size_t>(j)] = shift + least * sum.poles[from];
    weights_[static_cast<size_t>(j)] = j < sum.count ? scale * sum.weights[from] : 0;
  }
  BestKernels().tridiagonal.inverse_pivots(t.d, t.e, t.n, shifts.data(), poles_, inverses_);
}

void ResolventSum::Multiply(const double* b, double* scratch, double* y) const {
  std::fill(y, y + t_.n, 0.0);
  for (int64_t first = 0; first < poles_; first += TridiagonalKernels::kLanes) {
    BestKernels().tridiagonal.add_solution(t_.e, inverses_ + first, t_.n, poles_, weights_.data() + first, b, scratch,
                                           y);
  }
}

void ResolventSum::Grow(int64_t count, Block* block) {
  block->count = count;
  BestKernels().tridiagonal.grow_resolvents(t_.e, inverses_, columns_, count, poles_, weights_.data(), corner_.data(),
                                            block->growth.data(), block->factors.data(), block->generators.data(),
                                            block->sums.data());
  columns_ += count;
}

}  // namespace shampoo
