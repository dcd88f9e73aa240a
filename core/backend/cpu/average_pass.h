// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "core/backend/cpu/block_context.h"
#include "core/backend/cpu/block_rounding.h"
#include "core/backend/cpu/step_item.h"
#include "core/backend/cpu/strided.h"
#include "core/rules/averages.h"

namespace shampoo {

// Updates the state that a block stores for the key `averaging` (the newest iterate minus the parameter) or for
// `weight_ema` (the average minus the parameter), while a step writes the parameter. See core/rules/averages.h.
template <typename Real>
class AverageTracker {
 public:
  // iterate: a dense array of the new iterate minus the old parameter. nullptr if the iterate does not move or the key
  // `averaging` is not set.
  AverageTracker(const StepItem& item, const Real* iterate, char* arena)
      : item_(item),
        iterate_(iterate),
        state_rounding_(BlockRounding::OfState(item, RoundedAverageOf(*item.block))),
        param_rounding_(BlockRounding::OfParam(item)),
        offset_(arena + Slot().offset, Slot().dtype, &state_rounding_) {}
  AverageTracker(const AverageTracker&) = delete;
  AverageTracker& operator=(const AverageTracker&) = delete;

  bool is_needed() const {
    return MovesAverage(*item_.program->settings, item_.program->t, item_.block->iterate_offset.present(),
                        item_.block->ema_offset.present());
  }

  // Updates the state for elements [at, at + n) of the block. w: the old parameter W. update: U. value: W + U. These
  // three point to the element `at`.
  void Track(int64_t at, int64_t n, const Real* w, const Real* update, const Real* value) {
    Real written[kChunkElements];
    FindWritten(at, n, w, update, value, written);
    Real* const offset = offset_.Open(at, n);
    if (item_.block->iterate_offset.present()) {
      const Real* const iterate = iterate_ != nullptr ? iterate_ + at : offset;
      for (int64_t i = 0; i < n; ++i) offset[i] = NextIterateOffset(iterate[i], w[i], written[i]);
    } else {
      const auto decay = static_cast<Real>(item_.program->settings->weight_ema);
      for (int64_t i = 0; i < n; ++i) offset[i] = NextEmaOffset(decay, offset[i], w[i], written[i]);
    }
    offset_.Close(at, n);
  }

 private:
  const StateSlot& Slot() const { return item_.block->average_offset(); }

  // Computes the new parameter, with the same roundings as on a rank that receives the update.
  void FindWritten(int64_t at, int64_t n, const Real* w, const Real* update, const Real* value, Real* written) const {
    const ParamDesc& desc = item_.param->desc;
    const Dtype exchange = item_.exchange != nullptr ? item_.block->exchange_dtype : DtypeOf<Real>();
    const bool writes_updates = item_.program->output == Output::kUpdates;
    if (writes_updates || (item_.exchange != nullptr && !item_.exchange_params)) {
      std::copy(update, update + n, written);
      BlockRounding().Round(exchange, written, at, n);
      if (writes_updates) param_rounding_.Round(desc.out_dtype, written, at, n);
      for (int64_t i = 0; i < n; ++i) written[i] = w[i] + written[i];
    } else {
      std::copy(value, value + n, written);
      BlockRounding().Round(exchange, written, at, n);
    }
    if (writes_updates) {
      // The caller of the library adds the update to the parameter, and rounds the sum to the nearest number.
      BlockRounding().Round(desc.param_dtype, written, at, n);
    } else {
      param_rounding_.Round(desc.out_dtype, written, at, n);
    }
  }

  const StepItem& item_;
  const Real* const iterate_;
  const BlockRounding state_rounding_;
  const BlockRounding param_rounding_;
  MutableOperand<Real> offset_;  // the state
};

// Computes the step of a block if the key `averaging` is set (AveragingStep, core/rules/averages.h). Weight decay
// and the whole update change the newest iterate. The parameter takes a fraction of this update, and moves towards the
// iterate.
template <typename Real>
class AveragingPass {
 public:
  // p: a dense array for the whole block. The direction is p * scale.down * scale.up.
  AveragingPass(const BlockContext<Real>& context, const Real* p, const DirectionScale& scale)
      : context_(context), p_(p), scale_(scale) {}

  // Writes the old parameter minus the new parameter to `difference`, and the new iterate minus the old parameter to
  // `iterate`.
  void Run(Real* difference, Real* iterate) const {
    const Block& block = context_.block;
    const double lr_sum =
        block.lr_sum.present() ? *reinterpret_cast<const double*>(context_.memory.arena + block.lr_sum.offset) : 0;
    const AveragingStep step = MakeAveragingStep(*context_.program.settings, context_.program.lr, lr_sum);
    PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    scope.ForEach(PartCount(block.elements),
                  [&](int64_t i) { RunPart(PartAt(block.elements, i), step, difference, iterate); });
  }

 private:
  void RunPart(const Range& range, const AveragingStep& step, Real* difference, Real* iterate) const {
    StridedOperand<Real> parameter(context_.item.buffers->param, context_.item.param->desc.param_dtype,
                                   BlockView::Of(context_.block));
    const StateSlot& slot = context_.block.iterate_offset;
    Operand<Real> offset(context_.memory.arena + slot.offset, slot.dtype);
    const AveragedMove<Real> move(step, context_.program, scale_);
    ForEachViewChunk(parameter.run(), range, [&](int64_t at, int64_t n) {
      const Real* const w = parameter.Read(at, n);
      const Real* const z = offset.Read(at, n);
      for (int64_t i = 0; i < n; ++i) {
        const AveragedElement<Real> moved = move.Of(p_[at + i], w[i], z[i]);
        difference[at + i] = moved.difference;
        iterate[at + i] = moved.iterate;
      }
    });
  }

  const BlockContext<Real>& context_;
  const Real* const p_;
  const DirectionScale scale_;
};

}  // namespace shampoo
