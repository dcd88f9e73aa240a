// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/block_step.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/backend/cpu/apply_pass.h"
#include "core/backend/cpu/block_context.h"
#include "core/backend/cpu/filter_pass.h"
#include "core/backend/cpu/fit_check.h"
#include "core/backend/cpu/shampoo_direction.h"
#include "core/base/kernels/kernels.h"

namespace shampoo {
namespace {

// Runs the step of one block, with the direction of a method such as ShampooDirection. A state that the arena holds in
// another dtype is widened when it is read, used unrounded, and rounded once when it is stored.
template <typename Real, template <typename> class Method>
class BlockStep {
 public:
  BlockStep(const StepItem& item, const StepMemory& memory, Team::Worker* worker)
      : context_(item, memory, worker), method_(context_) {}

  void Run() {
    if (context_.item.skip_update) return SkipUpdate(context_.item);
    const BlockData<Real> g = ReadGradient();
    method_.Update(g);
    ApplyDirectionOf(g);
  }

 private:
  bool DenseInBuffer() const {
    const std::array<int64_t, kMaxDims> dense = DenseStrides(context_.block);
    for (int k = 0; k < context_.block.order(); ++k) {
      const auto at = static_cast<size_t>(k);
      if (context_.block.shape[k] != 1 && context_.block.stride[at] != dense[at]) return false;
    }
    return true;
  }

  // Returns the caller's gradient if it can be used in place, otherwise a dense copy.
  BlockData<Real> ReadGradient() const {
    const bool as_it_is = context_.item.param->desc.grad_dtype == DtypeOf<Real>() &&
                          context_.program.gradient_scale == 1 && context_.program.coupled_decay == 0;
    const int64_t row = context_.row();
    if (as_it_is && (context_.block.order() == 2 || DenseInBuffer())) {
      const auto* const data = static_cast<const Real*>(context_.item.buffers->grad) + context_.block.offset;
      return {data, context_.block.order() == 2 && context_.block.shape[0] > 1 ? context_.block.stride[0] : row};
    }
    PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    Real* const g = context_.At(context_.layout.gradient);
    scope.ForEach(PartCount(context_.block.elements), [&](int64_t i) {
      LoadGradient(context_.program, *context_.item.param, context_.block, *context_.item.buffers,
                   PartAt(context_.block.elements, i), g);
    });
    return {g, row};
  }

  void ApplyDirectionOf(const BlockData<Real>& g) const {
    Real* const p = context_.At(context_.layout.direction[0]);
    const bool filtered = context_.block.filtered_grad.present() && context_.program.filter_decay != 0;
    Real* const h = filtered ? context_.At(context_.layout.filtered) : nullptr;
    switch (context_.item.schedule.rule) {
      case DirectionRule::kPrecondition:
        return Precondition(g, h);
      case DirectionRule::kGraft:
        return Apply(p, {1, 1, std::sqrt(Filter(g, h, p))});
      case DirectionRule::kFiltered:
        Filter(g, p, nullptr);
        break;
      case DirectionRule::kZero:
        Filter(g, h, nullptr);
        std::fill(p, p + context_.block.elements, Real{0});
        break;
    }
    Apply(p, {1, 1, Norm(p)});
  }

  // Returns |D|^2.
  double Filter(const BlockData<Real>& g, Real* h, Real* d) const {
    PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    return SumOverParts(context_.block.elements, &scope, [&](const Range& part) {
      return FilterGradient<Real>(context_.program, context_.block, g, part, context_.memory.arena, h, d);
    });
  }

  void Precondition(const BlockData<Real>& g, Real* h) const {
    const double graft_square = Filter(g, h, nullptr);
    const BlockData<Real> p = method_.Direction(h == nullptr ? g : BlockData<Real>{h, context_.row()});
    const bool is_grafted = context_.program.grafting != Grafting::kNone;
    Apply(p.data, ScaleDirection(context_.program, is_grafted, Norm(p.data), std::sqrt(graft_square)));
  }

  double Norm(const Real* p) const {
    PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    return std::sqrt(SumOverParts(context_.block.elements, &scope, [&](const Range& part) {
      return BestKernels().Of<Real>().sum_of_squares(p + part.begin, part.end - part.begin);
    }));
  }

  void Apply(const Real* p, const DirectionScale& scale) const {
    PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    if (!CanApply(context_.item, p, scale, context_.memory.arena, &scope)) return SkipUpdate(context_.item);
    scope.ForEach(PartCount(context_.block.elements), [&](int64_t i) {
      ApplyDirection(context_.item, PartAt(context_.block.elements, i), p, scale, context_.memory.arena);
    });
  }

  const BlockContext<Real> context_;
  Method<Real> method_;
};

}  // namespace

void StepBlock(const StepItem& item, const StepMemory& memory, Team::Worker* worker) {
  if (item.block->computation == Dtype::kF64) {
    BlockStep<double, ShampooDirection>(item, memory, worker).Run();
  } else {
    BlockStep<float, ShampooDirection>(item, memory, worker).Run();
  }
}

}  // namespace shampoo
