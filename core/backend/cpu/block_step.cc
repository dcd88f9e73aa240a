// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/block_step.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/backend/cpu/apply_pass.h"
#include "core/backend/cpu/block_work.h"
#include "core/backend/cpu/filter_pass.h"
#include "core/backend/cpu/fit_check.h"
#include "core/backend/cpu/shampoo_direction.h"
#include "core/base/kernels/kernels.h"

namespace shampoo {
namespace {

// The step of one block in the order of the program, with the direction of a method (see ShampooDirection). Everything
// that lies in the arena in another dtype is widened before it is used, used unrounded, and rounded once when it is
// stored.
template <typename Real, template <typename> class Method>
class BlockStep {
 public:
  BlockStep(const StepItem& item, const StepMemory& memory, Team::Worker* worker)
      : work_(item, memory, worker), method_(work_) {}

  void Run() {
    if (work_.item.skip_update) return SkipUpdate(work_.item);
    const BlockData<Real> g = ReadGradient();
    method_.Update(g);
    ApplyDirectionOf(g);
  }

 private:
  bool DenseInBuffer() const {
    const std::array<int64_t, kMaxDims> dense = DenseStrides(work_.block);
    for (int k = 0; k < work_.block.order(); ++k) {
      const auto at = static_cast<size_t>(k);
      if (work_.block.shape[k] != 1 && work_.block.stride[at] != dense[at]) return false;
    }
    return true;
  }

  // The caller's own gradient where it can be used as it is, else a dense copy.
  BlockData<Real> ReadGradient() const {
    const bool as_it_is = work_.item.param->desc.grad_dtype == DtypeOf<Real>() && work_.program.gradient_scale == 1 &&
                          work_.program.coupled_decay == 0;
    const int64_t row = work_.row();
    if (as_it_is && (work_.block.order() == 2 || DenseInBuffer())) {
      const auto* const data = static_cast<const Real*>(work_.item.buffers->grad) + work_.block.offset;
      return {data, work_.block.order() == 2 && work_.block.shape[0] > 1 ? work_.block.stride[0] : row};
    }
    PhaseScope scope = work_.Scope(StepPhase::kElementwise);
    Real* const g = work_.At(work_.layout.gradient);
    scope.ForEach(PartCount(work_.block.elements), [&](int64_t i) {
      LoadGradient(work_.program, *work_.item.param, work_.block, *work_.item.buffers, PartAt(work_.block.elements, i),
                   g);
    });
    return {g, row};
  }

  void ApplyDirectionOf(const BlockData<Real>& g) const {
    Real* const p = work_.At(work_.layout.direction[0]);
    const bool filtered = work_.block.filtered_grad.present() && work_.program.filter_decay != 0;
    Real* const h = filtered ? work_.At(work_.layout.filtered) : nullptr;
    switch (work_.item.schedule.rule) {
      case DirectionRule::kPrecondition:
        return Precondition(g, h);
      case DirectionRule::kGraft:
        Filter(g, h, p);
        break;
      case DirectionRule::kFiltered:
        Filter(g, p, nullptr);
        break;
      case DirectionRule::kZero:
        Filter(g, h, nullptr);
        std::fill(p, p + work_.block.elements, Real{0});
        break;
    }
    Apply(p, {1, 1, Norm(p)});
  }

  // |D|^2
  double Filter(const BlockData<Real>& g, Real* h, Real* d) const {
    PhaseScope scope = work_.Scope(StepPhase::kElementwise);
    return SumOverParts(work_.block.elements, &scope, [&](const Range& part) {
      return FilterGradient<Real>(work_.program, work_.block, g, part, work_.memory.arena, h, d);
    });
  }

  void Precondition(const BlockData<Real>& g, Real* h) const {
    const double graft_square = Filter(g, h, nullptr);
    const BlockData<Real> p = method_.Direction(h == nullptr ? g : BlockData<Real>{h, work_.row()});
    const bool is_grafted = work_.program.grafting != Grafting::kNone;
    Apply(p.data, ScaleDirection(work_.program, is_grafted, Norm(p.data), std::sqrt(graft_square)));
  }

  double Norm(const Real* p) const {
    PhaseScope scope = work_.Scope(StepPhase::kElementwise);
    return std::sqrt(SumOverParts(work_.block.elements, &scope, [&](const Range& part) {
      return BestKernels().Of<Real>().sum_of_squares(p + part.begin, part.end - part.begin);
    }));
  }

  void Apply(const Real* p, const DirectionScale& scale) const {
    PhaseScope scope = work_.Scope(StepPhase::kElementwise);
    if (!CanApply(work_.item, p, scale, work_.memory.arena, &scope)) return SkipUpdate(work_.item);
    scope.ForEach(PartCount(work_.block.elements), [&](int64_t i) {
      ApplyDirection(work_.item, PartAt(work_.block.elements, i), p, scale, work_.memory.arena);
    });
  }

  const BlockWork<Real> work_;
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
