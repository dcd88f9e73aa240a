// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "core/backend/cpu/block_context.h"
#include "core/backend/cpu/strided.h"
#include "core/base/kernels/kernels.h"
#include "core/rules/norms.h"

namespace shampoo {

// Computes the update of a block in a group that sets the key norm_control or update_floor. The block is a whole
// tensor. NormControlStep (norms.h) has the formulas.
template <typename Real>
class NormControlPass {
 public:
  // p: the unscaled direction of the whole block, dense. The direction of the step is p * scale.down * scale.up.
  NormControlPass(const BlockContext<Real>& context, const Real* p, const DirectionScale& scale)
      : context_(context),
        settings_(*context.program.settings),
        decay_(DecayOf(context.program)),
        by_row_(ControlsRows(settings_)),
        p_(p),
        scale_(scale) {}

  // Returns the norm of the parameter.
  double ParamNorm() const {
    PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    return std::sqrt(SumOverParts(context_.block.elements, &scope, [&](const Range& part) {
      StridedOperand<Real> parameter = Parameter();
      double square = 0;
      ForEachViewChunk(parameter.run(), part, [&](int64_t at, int64_t n) {
        square += BestKernels().Of<Real>().sum_of_squares(parameter.Read(at, n), n);
      });
      return square;
    }));
  }

  // Writes the old parameter minus the new parameter to `difference`, a dense tensor, and returns true. If CanControl()
  // (norms.h) returns false, Subtract() writes nothing and returns false. radius: with norm_control=hyperball, the norm
  // that the new parameter must have; otherwise not used.
  bool Subtract(double radius, Real* difference) const {
    PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    const int64_t units = by_row_ ? context_.block.matrix_rows : 1;
    NormControlRow whole;
    auto* const of_rows = reinterpret_cast<NormControlRow*>(context_.At(context_.layout.norm_rows));
    NormControlRow* const rows = by_row_ ? of_rows : &whole;
    if (by_row_) {
      ForEachRowTile(&scope, [&](const Range& range) { SumRows(range, rows); });
    } else {
      whole.sums = SumWhole(&scope);
    }
    NormSums total;
    for (int64_t unit = 0; unit < units; ++unit) total += rows[unit].sums;
    if (!CanControl(settings_, total, radius)) return false;
    NormControlStep step(settings_, context_.program.lr, total, radius, scale_);
    for (int64_t unit = 0; unit < units; ++unit) step.Add(rows[unit].sums);
    for (int64_t unit = 0; unit < units; ++unit) rows[unit].move = step.MoveOf(rows[unit].sums);
    const double ratio = step.NeedsNorm() ? step.Ratio(std::sqrt(SquareOfMoved(rows, &scope))) : 1;
    Write(rows, ratio, difference, &scope);
    return true;
  }

 private:
  static constexpr int64_t kRowsOfTile = 64;

  StridedOperand<Real> Parameter() const {
    return StridedOperand<Real>(context_.item.buffers->param, context_.item.param->desc.param_dtype,
                                BlockView::Of(context_.block));
  }

  double Decayed(Real w, Real p) const { return DecayedElement(settings_, decay_, w, p); }
  double Moved(const ControlledMove& move, Real w, Real p) const {
    return move.Of(Decayed(w, p), static_cast<double>(p));
  }

  NormSums SumWhole(Tiles* tiles) const {
    NormSums of_part[kMaxParts];
    const int64_t n = context_.block.elements;
    tiles->ForEach(PartCount(n), [&](int64_t i) {
      StridedOperand<Real> parameter = Parameter();
      NormSums sums;
      ForEachViewChunk(parameter.run(), PartAt(n, i),
                       [&](int64_t at, int64_t count) { AddChunk(parameter.Read(at, count), at, count, &sums); });
      of_part[i] = sums;
    });
    NormSums total;
    for (int64_t i = 0; i < PartCount(n); ++i) total += of_part[i];
    return total;
  }

  void AddChunk(const Real* w, int64_t at, int64_t count, NormSums* sums) const {
    for (int64_t i = 0; i < count; ++i) AddElement(w[i], p_[at + i], sums);
  }
  void AddElement(Real w, Real p, NormSums* sums) const { *sums += TermsOf(Decayed(w, p), static_cast<double>(p)); }

  // The rows are the outputs (Block::matrix_rows), which are columns in memory if `fan` is kInOut.
  bool RowsAreContiguous() const { return context_.item.param->desc.fan == Fan::kOutIn; }

  template <typename Work>
  void ForEachRowTile(Tiles* tiles, const Work& work) const {
    const int64_t rows = context_.block.matrix_rows;
    tiles->ForEach((rows + kRowsOfTile - 1) / kRowsOfTile, [&](int64_t i) {
      work(Range{i * kRowsOfTile, std::min(rows, (i + 1) * kRowsOfTile)});
    });
  }

  // Calls work(row, at, w) for each element of `rows`. at: the index of the element in the dense block. w: the value of
  // the parameter at this element.
  template <typename Work>
  void ForEachOfRows(const Range& rows, const Work& work) const {
    StridedOperand<Real> parameter = Parameter();
    const int64_t columns = context_.block.matrix_columns;
    if (RowsAreContiguous()) {
      ForEachViewChunk(parameter.run(), {rows.begin * columns, rows.end * columns}, [&](int64_t at, int64_t n) {
        const Real* const w = parameter.Read(at, n);
        for (int64_t i = 0; i < n; ++i) work((at + i) / columns, at + i, w[i]);
      });
      return;
    }
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t at = column * context_.block.matrix_rows;
      const Real* const w = parameter.Read(at + rows.begin, rows.end - rows.begin);
      for (int64_t row = rows.begin; row < rows.end; ++row) work(row, at + row, w[row - rows.begin]);
    }
  }

  void SumRows(const Range& range, NormControlRow* rows) const {
    std::fill(rows + range.begin, rows + range.end, NormControlRow{});
    ForEachOfRows(range, [&](int64_t row, int64_t at, Real w) { AddElement(w, p_[at], &rows[row].sums); });
  }

  // Returns the squared norm of W1 (see ControlledMove). The new parameter is a multiple of W1.
  double SquareOfMoved(NormControlRow* rows, Tiles* tiles) const {
    if (!by_row_) {
      const ControlledMove move = rows->move;
      return SumOverParts(context_.block.elements, tiles, [&](const Range& part) {
        StridedOperand<Real> parameter = Parameter();
        double square = 0;
        ForEachViewChunk(parameter.run(), part, [&](int64_t at, int64_t n) {
          const Real* const w = parameter.Read(at, n);
          for (int64_t i = 0; i < n; ++i) {
            const double moved = Moved(move, w[i], p_[at + i]);
            square += moved * moved;
          }
        });
        return square;
      });
    }
    ForEachRowTile(tiles, [&](const Range& range) {
      ForEachOfRows(range, [&](int64_t row, int64_t at, Real w) {
        const double moved = Moved(rows[row].move, w, p_[at]);
        rows[row].moved_square += moved * moved;
      });
    });
    double square = 0;
    for (int64_t row = 0; row < context_.block.matrix_rows; ++row) square += rows[row].moved_square;
    return square;
  }

  void Write(const NormControlRow* rows, double ratio, Real* difference, Tiles* tiles) const {
    const auto subtract = [&](const ControlledMove& move, int64_t at, Real w) {
      difference[at] = static_cast<Real>(ControlledDifference(static_cast<double>(w), ratio, Moved(move, w, p_[at])));
    };
    if (by_row_) {
      ForEachRowTile(tiles, [&](const Range& range) {
        ForEachOfRows(range, [&](int64_t row, int64_t at, Real w) { subtract(rows[row].move, at, w); });
      });
      return;
    }
    const ControlledMove move = rows->move;
    const int64_t elements = context_.block.elements;
    tiles->ForEach(PartCount(elements), [&](int64_t i) {
      StridedOperand<Real> parameter = Parameter();
      ForEachViewChunk(parameter.run(), PartAt(elements, i), [&](int64_t at, int64_t n) {
        const Real* const w = parameter.Read(at, n);
        for (int64_t j = 0; j < n; ++j) subtract(move, at + j, w[j]);
      });
    });
  }

  const BlockContext<Real>& context_;
  const Settings& settings_;
  const double decay_;
  const bool by_row_;
  const Real* p_;
  const DirectionScale scale_;
};

}  // namespace shampoo
