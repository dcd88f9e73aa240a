// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/fit_check.h"

#include <algorithm>
#include <cfenv>
#include <cmath>

#include "core/backend/cpu/apply_pass.h"
#include "core/backend/cpu/block_rounding.h"
#include "core/backend/cpu/magnitude.h"
#include "core/base/convert.h"
#include "core/base/kernels/kernels.h"

namespace shampoo {
namespace {

UpdateTargets TargetsOf(const StepItem& item) {
  const ParamDesc& desc = item.param->desc;
  const Block& block = *item.block;
  return {.computation = block.computation,
          .param = desc.param_dtype,
          .out = desc.out_dtype,
          .output = item.program->output,
          .has_momentum = HasMomentum(item),
          .momentum = block.momentum.dtype,
          .has_copy = item.buffers->copy != nullptr,
          .copy = desc.copy_dtype,
          .is_exchanged = item.exchange != nullptr,
          .exchanges_params = item.exchange_params,
          .exchange = block.exchange_dtype};
}

template <typename Real>
class FitCheck {
 public:
  FitCheck(const StepItem& item, const Real* p, const DirectionScale& scale, const char* arena)
      : item_(item),
        program_(*item.program),
        block_(*item.block),
        p_(p),
        scalars_(MakeApplyScalars<Real>(program_, scale.down, scale.up)),
        size_(scale.size),
        arena_(arena),
        targets_(TargetsOf(item)),
        limits_(LimitsOf(targets_)),
        // If the rounding mode is not FE_TONEAREST, even a tiny update may move a parameter that is at the limit of its
        // dtype beyond that limit.
        mode_(FitCheckFor(program_, targets_, BoundsSuffice(limits_, targets_) && std::fegetround() == FE_TONEAREST,
                          size_)) {}

  bool Fits(Tiles* tiles) const {
    if (mode_ == FitCheckMode::kNone) return true;
    return SumOverParts(block_.elements, tiles, [&](const Range& part) { return PartFits(part) ? 0.0 : 1.0; }) == 0;
  }

 private:
  bool PartFits(const Range& range) const {
    const BlockView view = BlockView::Of(block_);
    const Dtype dtype = item_.param->desc.param_dtype;
    StridedOperand<Real> parameter(item_.buffers->param, dtype, view);
    StridedOperand<double> wide_parameter(item_.buffers->param, dtype, view);
    Operand<Real> momentum(arena_ + block_.momentum.offset, block_.momentum.dtype);
    bool fits = true;
    ForEachViewChunk(parameter.run(), range, [&](int64_t at, int64_t n) {
      if (!fits) return;
      const Real* const w = parameter.Read(at, n);
      const Real* const m = targets_.has_momentum ? momentum.Read(at, n) : nullptr;
      if (mode_ == FitCheckMode::kByBound) {
        const double largest_w = program_.decays_parameter() ? LargestMagnitude(w, DtypeOf<Real>(), n) : 0;
        const double largest_m = m != nullptr ? LargestMagnitude(m, DtypeOf<Real>(), n) : 0;
        if (IsSmall(largest_w, largest_m)) return;
      }
      fits = ResultFits(at, n, w, wide_parameter.Read(at, n), m);
    });
    return fits;
  }

  bool IsSmall(double largest_w, double largest_m) const {
    return StaysSmall(program_, block_.computation, targets_.has_momentum, size_, largest_w, largest_m);
  }

  // Returns whether the results for n elements fit their dtypes. Runs the kernel of ApplyDirection, so that
  // intermediate values are rounded and overflow as in ApplyDirection.
  bool ResultFits(int64_t at, int64_t n, const Real* w, const double* wide_w, const Real* m) const {
    Real moved[kChunkElements] = {};
    Real update[kChunkElements];
    Real value[kChunkElements];
    if (m != nullptr) std::copy(m, m + n, moved);
    BestKernels().Of<Real>().apply(scalars_, p_ + at, w, m != nullptr ? moved : nullptr, update, value, n);
    if (item_.exchange != nullptr && !item_.exchange_params && block_.exchange_dtype != DtypeOf<Real>()) {
      // Each rank will add the exchanged update to its parameter. The exchange rounds the update to exchange_dtype.
      Real received[kChunkElements];
      std::copy(update, update + n, received);
      BlockRounding().Round(block_.exchange_dtype, received, at, n);
      for (int64_t i = 0; i < n; ++i) value[i] = w[i] + received[i];
    }
    bool fits = true;
    for (int64_t i = 0; i < n; ++i) {
      const AppliedElement<Real> applied{moved[i], update[i], value[i]};
      fits = fits && ElementFits(limits_, applied, value[i], std::isfinite(wide_w[i]));
    }
    return fits;
  }

  const StepItem& item_;
  const StepProgram& program_;
  const Block& block_;
  const Real* const p_;
  const ApplyScalars<Real> scalars_;
  const double size_;
  const char* const arena_;
  const UpdateTargets targets_;
  const UpdateLimits limits_;
  const FitCheckMode mode_;
};

}  // namespace

template <typename Real>
bool CanApply(const StepItem& item, const Real* p, const DirectionScale& scale, const char* arena, Tiles* tiles) {
  if (!DirectionFits(*item.program, item.block->computation, scale.size)) return false;
  return FitCheck<Real>(item, p, scale, arena).Fits(tiles);
}

template bool CanApply<float>(const StepItem&, const float*, const DirectionScale&, const char*, Tiles*);
template bool CanApply<double>(const StepItem&, const double*, const DirectionScale&, const char*, Tiles*);

}  // namespace shampoo
