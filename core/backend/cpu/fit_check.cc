// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/fit_check.h"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <limits>

#include "core/backend/cpu/apply_pass.h"
#include "core/backend/cpu/magnitude.h"
#include "core/base/convert.h"
#include "core/base/kernels/kernels.h"

namespace shampoo {
namespace {

// The largest magnitudes that the step of a block may write.
struct WriteLimits {
  double momentum, update, value;
  bool narrow;  // a dtype that is written ends before the computation's does

  WriteLimits(const StepItem& item, double limit) : momentum(limit), update(limit), value(limit) {
    const ParamDesc& desc = item.param->desc;
    const auto lower = [](double* to, Dtype dtype) { *to = std::min(*to, LargestFinite(dtype)); };
    if (HasMomentum(item)) lower(&momentum, item.block->momentum.dtype);
    lower(item.program->output == Output::kUpdates ? &update : &value, desc.out_dtype);
    if (item.buffers->copy != nullptr) lower(&value, desc.copy_dtype);
    if (item.exchange != nullptr) lower(item.exchange_params ? &value : &update, item.block->exchange_dtype);
    narrow = std::min({momentum, update, value}) < limit;
  }
};

template <typename Real>
class FitCheck {
 public:
  FitCheck(const StepItem& item, const Real* p, double scale_down, double scale_up, double size, const char* arena)
      : item_(item),
        program_(*item.program),
        block_(*item.block),
        p_(p),
        scalars_(ApplyScalarsOf<Real>(program_, scale_down, scale_up)),
        size_(size),
        arena_(arena),
        has_momentum_(HasMomentum(item)),
        limits_(item, LargestFinite(DtypeOf<Real>())),
        // A float64 parameter may become infinite when it is read as float32. A directed rounding may take a parameter
        // at the limit beyond it by any update.
        bounds_suffice_(!limits_.narrow && LargestFinite(item.param->desc.param_dtype) <= kLimit &&
                        std::fegetround() == FE_TONEAREST) {}

  bool Fits(Tiles* tiles) const {
    // Without decay and momentum nothing has to be read.
    if (bounds_suffice_ && program_.decoupled_decay == 0 && !has_momentum_ && StaysSmall(0, 0)) return true;
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
    ForEachStretchOf(parameter.run(), range, [&](int64_t at, int64_t n) {
      if (!fits) return;
      const Real* const w = parameter.Read(at, n);
      const Real* const m = has_momentum_ ? momentum.Read(at, n) : nullptr;
      if (bounds_suffice_) {
        const double largest_w = program_.decoupled_decay != 0 ? LargestMagnitude(w, DtypeOf<Real>(), n) : 0;
        const double largest_m = m != nullptr ? LargestMagnitude(m, DtypeOf<Real>(), n) : 0;
        if (StaysSmall(largest_w, largest_m)) return;
      }
      fits = ResultFits(at, n, w, wide_parameter.Read(at, n), m);
    });
    return fits;
  }

  static constexpr double kLimit = LargestFinite(DtypeOf<Real>());
  // An update below a quarter of a unit in the last place of the limit takes no parameter beyond it.
  static constexpr double kSmall = kLimit * static_cast<double>(std::numeric_limits<Real>::epsilon()) / 8;

  // With |W| and |M| of at most so much. NaN is not small.
  bool StaysSmall(double largest_w, double largest_m) const {
    const double direction = size_ + program_.decoupled_decay * largest_w;
    const double moved = has_momentum_ ? program_.momentum * largest_m + direction : direction;
    const double total = has_momentum_ && program_.nesterov ? direction + program_.momentum * moved : moved;
    return moved < kSmall && total < kSmall && std::fabs(program_.lr) * total < kSmall;
  }

  // The loop of ApplyDirection itself, so that each intermediate value is rounded, and overflows, as it does there.
  bool ResultFits(int64_t at, int64_t n, const Real* w, const double* wide_w, const Real* m) const {
    Real moved[kStretch] = {};
    Real update[kStretch];
    Real value[kStretch];
    if (m != nullptr) std::copy(m, m + n, moved);
    BestKernels().Of<Real>().apply(scalars_, p_ + at, w, m != nullptr ? moved : nullptr, update, value, n);
    if (item_.exchange != nullptr && !item_.exchange_params && block_.exchange_dtype != DtypeOf<Real>()) {
      // Each rank adds the update as it was rounded for the exchange.
      alignas(16) unsigned char sent[kStretch * sizeof(double)];
      Real received[kStretch];
      Narrow(update, sent, block_.exchange_dtype, n);
      Widen(sent, block_.exchange_dtype, received, n);
      for (int64_t i = 0; i < n; ++i) value[i] = w[i] + received[i];
    }
    bool fits = true;
    for (int64_t i = 0; i < n; ++i) {
      const bool written = static_cast<double>(std::fabs(moved[i])) <= limits_.momentum &&
                           static_cast<double>(std::fabs(update[i])) <= limits_.update;
      // A parameter that is not finite stays so: that is not this step's doing.
      const bool kept = static_cast<double>(std::fabs(value[i])) <= limits_.value || !std::isfinite(wide_w[i]);
      fits = fits && written && kept;
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
  const bool has_momentum_;
  const WriteLimits limits_;
  const bool bounds_suffice_;
};

}  // namespace

template <typename Real>
bool CanApply(const StepItem& item, const Real* p, double scale_down, double scale_up, double size, const char* arena,
              Tiles* tiles) {
  const double limit = LargestFinite(DtypeOf<Real>());
  if (!(size < limit && std::fabs(item.program->lr) * size < limit)) return false;
  return FitCheck<Real>(item, p, scale_down, scale_up, size, arena).Fits(tiles);
}

template bool CanApply<float>(const StepItem&, const float*, double, double, double, const char*, Tiles*);
template bool CanApply<double>(const StepItem&, const double*, double, double, double, const char*, Tiles*);

}  // namespace shampoo
