// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/backend/cpu/block_context.h"
#include "core/backend/cpu/block_rounding.h"
#include "core/backend/cpu/kronecker.h"
#include "core/base/kernels/kernels.h"
#include "core/roots/orthogonalize.h"
#include "core/rules/muon.h"

namespace shampoo {

// Computes the direction of method muon for one matrix: the orthogonalized filtered gradient (arXiv 2502.16982).
// Unless the key second_moment is none, this direction is also divided by the square root of a moving average of its
// squares (NorMuon, arXiv 2510.05491; AdaMuon, arXiv 2507.11005). The class uses no other state of the block.
template <typename Real>
class MuonDirection {
 public:
  explicit MuonDirection(const BlockContext<Real>& context)
      : context_(context),
        settings_(*context.program.settings),
        rows_(context.block.shape[0]),
        columns_(context.block.shape[1]) {}

  bool Update(const BlockData<Real>& /*g*/) { return true; }

  BlockData<Real> Direction(const BlockData<Real>& h) const {
    Real* const d = context_.At(context_.layout.direction[0]);
    for (int64_t row = 0; row < rows_; ++row) std::copy_n(h.data + row * h.ld, columns_, d + row * columns_);
    {
      PhaseScope scope = context_.Scope(StepPhase::kPreconditioning);
      const OrthogonalizeMemory<Real> memory{context_.At(context_.layout.pairs), &scope};
      // The NaN makes the step skip the update of this block.
      if (!Orthogonalize(settings_, rows_, columns_, d, memory)) d[0] = std::numeric_limits<Real>::quiet_NaN();
    }
    if (context_.block.direction_moment.present()) DivideByMoment(d);
    return {d, columns_};
  }

 private:
  void DivideByMoment(Real* d) const {
    PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    const int64_t elements = context_.block.elements;
    const auto norm = [&] {
      return std::sqrt(SumOverParts(elements, &scope, [&](const Range& part) {
        return BestKernels().Of<Real>().sum_of_squares(d + part.begin, part.end - part.begin);
      }));
    };
    const double before = norm();
    if (!std::isfinite(before)) return;  // the update will be skipped, and the second moment must stay finite
    if (settings_.direction_moment == DirectionMoment::kElement) {
      DivideByElements(d, &scope);
      return;
    }
    DivideByMeans(d, &scope);
    const double after = norm();
    if (!(after > 0)) return;
    const auto factor = static_cast<Real>(before / after);
    scope.ForEach(PartCount(elements), [&](int64_t i) {
      const Range part = PartAt(elements, i);
      for (int64_t j = part.begin; j < part.end; ++j) d[j] *= factor;
    });
  }

  void DivideByElements(Real* d, Tiles* tiles) const {
    const StateSlot& slot = context_.block.direction_moment;
    const auto decay = static_cast<Real>(settings_.beta2);
    const auto weight = static_cast<Real>(WeightFor(settings_.beta2));
    const auto epsilon = static_cast<Real>(settings_.epsilon);
    const int64_t elements = context_.block.elements;
    const BlockRounding rounding = BlockRounding::OfState(context_.item, RoundedState::kMuonMoment);
    tiles->ForEach(PartCount(elements), [&](int64_t i) {
      MutableOperand<Real> moment(context_.memory.arena + slot.offset, slot.dtype, &rounding);
      ForEachChunk(PartAt(elements, i), [&](int64_t at, int64_t n) {
        Real* const v = moment.Open(at, n);
        for (int64_t j = 0; j < n; ++j) {
          v[j] = NextAverage(decay, v[j], weight, d[at + j] * d[at + j]);
          d[at + j] = DividedByMoment(d[at + j], SquareRootOf(v[j]) + epsilon);
        }
        moment.Close(at, n);
      });
    });
  }

  // Returns whether the second moment has one mean for each row of the block. If not, it has one mean for each column.
  // Rows and columns are those in memory. If `fan` is kOutIn, each row is for one output, otherwise for one input.
  bool MeansAreOfStoredRows() const {
    const bool of_outputs =
        MeansAreOfOutputs(settings_.direction_moment, context_.block.matrix_rows, context_.block.matrix_columns);
    return of_outputs == (context_.item.param->desc.fan == Fan::kOutIn);
  }

  // Divides each row, or each column, by the square root of the moving average of its mean square.
  void DivideByMeans(Real* d, Tiles* tiles) const {
    if (MeansAreOfStoredRows()) {
      tiles->ForEach((rows_ + kLines - 1) / kLines, [&](int64_t i) {
        for (int64_t row = i * kLines; row < std::min(rows_, (i + 1) * kLines); ++row) {
          Real* const line = d + row * columns_;
          const Real divisor = NextDivisor(row, BestKernels().Of<Real>().sum_of_squares(line, columns_), columns_);
          for (int64_t j = 0; j < columns_; ++j) line[j] = DividedByMoment(line[j], divisor);
        }
      });
      return;
    }
    tiles->ForEach((columns_ + kLines - 1) / kLines, [&](int64_t i) {
      const int64_t first = i * kLines;
      const int64_t count = std::min(kLines, columns_ - first);
      double sums[kLines] = {};
      for (int64_t row = 0; row < rows_; ++row) {
        BestKernels().Of<Real>().add_squares(d + row * columns_ + first, sums, count);
      }
      Real divisors[kLines];
      for (int64_t j = 0; j < count; ++j) divisors[j] = NextDivisor(first + j, sums[j], rows_);
      for (int64_t row = 0; row < rows_; ++row) {
        Real* const line = d + row * columns_ + first;
        for (int64_t j = 0; j < count; ++j) line[j] = DividedByMoment(line[j], divisors[j]);
      }
    });
  }

  // Updates the second moment of a line (a row or a column) of `count` elements. square: the sum of the squares of
  // these elements. Returns epsilon plus the square root of the moment.
  Real NextDivisor(int64_t line, double square, int64_t count) const {
    auto* const moment = reinterpret_cast<Real*>(context_.memory.arena + context_.block.direction_moment.offset);
    const auto mean = static_cast<Real>(square / static_cast<double>(count));
    moment[line] = NextAverage(static_cast<Real>(settings_.beta2), moment[line],
                               static_cast<Real>(WeightFor(settings_.beta2)), mean);
    return SquareRootOf(moment[line]) + static_cast<Real>(settings_.epsilon);
  }

  static constexpr int64_t kLines = 64;  // the number of rows, or of columns, that one tile processes

  const BlockContext<Real>& context_;
  const Settings& settings_;
  const int64_t rows_, columns_;
};

}  // namespace shampoo
