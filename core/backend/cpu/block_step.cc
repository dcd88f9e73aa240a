// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/block_step.h"

#include <algorithm>
#include <cmath>

#include "core/backend/cpu/apply_pass.h"
#include "core/backend/cpu/basis_step.h"
#include "core/backend/cpu/block_context.h"
#include "core/backend/cpu/block_data_operand.h"
#include "core/backend/cpu/block_io.h"
#include "core/backend/cpu/filter_pass.h"
#include "core/backend/cpu/muon_direction.h"
#include "core/backend/cpu/shampoo_direction.h"
#include "core/backend/cpu/sign_direction.h"

namespace shampoo {
namespace {

// Runs the step of one block. Direction is the class for the method of the block, such as ShampooDirection. If a state
// is stored in another dtype than Real, the step computes with the unrounded new state, and rounds it only to store it.
template <typename Real, template <typename> class Direction>
class BlockStep {
 public:
  BlockStep(const StepItem& item, const StepMemory& memory, Team::Worker* worker)
      : context_(item, memory, worker), io_(context_), method_(context_) {}

  void Run() {
    if (context_.item.skip_update) return SkipUpdate(context_.item);
    const BlockData<Real> g = io_.ReadGradient();
    if (!method_.Update(g)) return SkipUpdate(context_.item);
    ApplyDirectionOf(g);
  }

 private:
  void ApplyDirectionOf(const BlockData<Real>& g) const {
    Real* const p = context_.At(context_.layout.direction[0]);
    const bool filtered = context_.block.filtered_grad.present() && context_.program.filter_decay != 0;
    Real* const h = filtered ? context_.At(context_.layout.filtered) : nullptr;
    switch (context_.item.schedule.rule) {
      case DirectionRule::kPrecondition:
        return Precondition(g, h);
      case DirectionRule::kGraft:
        return io_.Apply(p, {1, 1, std::sqrt(Filter(g, h, p))});
      case DirectionRule::kFiltered:
        Filter(g, p, nullptr);
        break;
      case DirectionRule::kZero:
        Filter(g, h, nullptr);
        std::fill(p, p + context_.block.elements, Real{0});
        break;
    }
    io_.Apply(p, {1, 1, io_.Norm(p)});
  }

  // Runs FilterGradient over the whole block. Returns |D|^2, or 0 without grafting.
  double Filter(const BlockData<Real>& g, Real* h, Real* d) const {
    PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    return SumOverParts(context_.block.elements, &scope, [&](const Range& part) {
      return FilterGradient<Real>(context_.program, context_.item, g, part, context_.memory.arena, h, d);
    });
  }

  void Precondition(const BlockData<Real>& g, Real* h) const {
    const double graft_square = Filter(g, h, nullptr);
    const BlockData<Real> filtered = h == nullptr ? g : BlockData<Real>{h, context_.row()};
    const BlockData<Real> p = method_.Direction(filtered);
    const bool is_grafted = context_.program.grafting != Grafting::kNone;
    DirectionScale scale = ScaleDirection(context_.program, is_grafted, io_.Norm(p.data), std::sqrt(graft_square));
    if (context_.program.settings->dual_norm_scale && !is_grafted) {
      ScaleByDualNorm(InnerProduct(filtered, p), &scale);
    }
    io_.Apply(p.data, scale);
  }

  // Returns the inner product of two tensors of the block's shape.
  double InnerProduct(const BlockData<Real>& a, const BlockData<Real>& b) const {
    PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    return SumOverParts(context_.block.elements, &scope, [&](const Range& part) {
      BlockDataOperand<Real> first(a, context_.block);
      BlockDataOperand<Real> second(b, context_.block);
      double sum = 0;
      ForEachViewChunk(first.run(), part, [&](int64_t at, int64_t n) {
        const Real* const x = first.Read(at, n);
        const Real* const y = second.Read(at, n);
        for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
      });
      return sum;
    });
  }

  const BlockContext<Real> context_;
  const BlockIo<Real> io_;
  Direction<Real> method_;
};

template <template <typename> class Direction>
void StepWith(const StepItem& item, const StepMemory& memory, Team::Worker* worker) {
  if (item.block->computation == Dtype::kF64) {
    BlockStep<double, Direction>(item, memory, worker).Run();
  } else {
    BlockStep<float, Direction>(item, memory, worker).Run();
  }
}

}  // namespace

void StepBlock(const StepItem& item, const StepMemory& memory, Team::Worker* worker) {
  const Method method = item.program->settings->method;
  if (UsesEigenbasis(method)) return StepInBasis(item, memory, worker);
  if (method == Method::kMuon) return StepWith<MuonDirection>(item, memory, worker);
  if (method == Method::kSign) return StepWith<SignDirection>(item, memory, worker);
  StepWith<ShampooDirection>(item, memory, worker);
}

}  // namespace shampoo
