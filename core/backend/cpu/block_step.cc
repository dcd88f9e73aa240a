// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/block_step.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/backend/cpu/apply_pass.h"
#include "core/backend/cpu/filter_pass.h"
#include "core/backend/cpu/root_refresh.h"
#include "core/backend/cpu/stretch.h"
#include "core/base/convert.h"
#include "core/base/round_up.h"
#include "core/plan/layout.h"
#include "core/precondition/kronecker.h"

namespace shampoo {
namespace {

// The step of one block in the order of the program. Everything that lies in the arena in another dtype is widened
// before it is used, used unrounded, and rounded once when it is stored.
template <typename Real>
class BlockStep {
 public:
  BlockStep(const StepItem& item, char* arena, const SlotLayout& layout, char* workspace, RecoveryMemory* recovery)
      : item_(item),
        program_(*item.program),
        block_(*item.block),
        arena_(arena),
        layout_(layout),
        workspace_(workspace),
        recovery_(recovery) {}

  void Run() {
    const BlockData<Real> g = ReadGradient();
    UpdateFactors(g);
    ApplyDirectionOf(g);
  }

 private:
  Real* At(int64_t offset) const { return reinterpret_cast<Real*>(workspace_ + offset); }
  bool IsReal(const StateSlot& slot) const { return slot.dtype == DtypeOf<Real>(); }
  Real* InArena(const StateSlot& slot) const { return reinterpret_cast<Real*>(arena_ + slot.offset); }

  bool DenseInBuffer() const {
    int64_t expected = 1;
    for (int k = block_.order() - 1; k >= 0; --k) {
      if (block_.shape[k] != 1 && block_.stride[static_cast<size_t>(k)] != expected) return false;
      expected *= block_.shape[k];
    }
    return true;
  }

  // The caller's own gradient where it can be used as it is, else a dense copy.
  BlockData<Real> ReadGradient() const {
    const bool as_it_is =
        item_.param->desc.grad_dtype == DtypeOf<Real>() && program_.gradient_scale == 1 && program_.coupled_decay == 0;
    const int64_t row = block_.order() == 2 ? block_.shape[1] : 0;
    if (as_it_is && (block_.order() == 2 || DenseInBuffer())) {
      const auto* const data = static_cast<const Real*>(item_.buffers->grad) + block_.offset;
      return {data, block_.order() == 2 && block_.shape[0] > 1 ? block_.stride[0] : row};
    }
    LoadGradient(program_, *item_.param, block_, *item_.buffers, At(layout_.gradient));
    return {At(layout_.gradient), row};
  }

  void UpdateFactors(const BlockData<Real>& g) {
    for (int k = 0; k < block_.order(); ++k) {
      const StateSlot& slot = block_.factor[static_cast<size_t>(k)];
      const int64_t n = block_.shape[k] * block_.shape[k];
      Real* const factor = IsReal(slot) ? InArena(slot) : At(layout_.factor);
      if (!IsReal(slot)) Widen(arena_ + slot.offset, slot.dtype, factor, n);
      UpdateFactor(block_.shape, k, g, static_cast<Real>(program_.factor_keep), static_cast<Real>(program_.factor_add),
                   factor);
      if (!IsReal(slot)) Narrow(factor, arena_ + slot.offset, slot.dtype, n);
      if (program_.rule == DirectionRule::kPrecondition) PrepareInverse(k, factor);
    }
  }

  // inverse_[k]: X_k, fresh if due, in the computation dtype.
  void PrepareInverse(int k, const Real* factor) {
    const auto at = static_cast<size_t>(k);
    const StateSlot& slot = block_.inverse[at];
    const int64_t n = block_.shape[k] * block_.shape[k];
    if (IsReal(slot)) {
      inverse_[at] = InArena(slot);
    } else {
      inverse_[at] = At(layout_.inverse) + inverse_end_;
      inverse_end_ +=
          RoundUp(n * static_cast<int64_t>(sizeof(Real)), kStateAlignment) / static_cast<int64_t>(sizeof(Real));
    }
    const RootMemory memory{block_.root_dtype, workspace_ + layout_.root,
                            reinterpret_cast<int32_t*>(workspace_ + layout_.root_ints), recovery_};
    const bool fresh = program_.refresh_roots && RefreshRoot(item_, k, factor, arena_, memory, inverse_[at]);
    if (IsReal(slot)) return;
    if (fresh) {
      Narrow(inverse_[at], arena_ + slot.offset, slot.dtype, n);
    } else {
      Widen(arena_ + slot.offset, slot.dtype, inverse_[at], n);
    }
  }

  void ApplyDirectionOf(const BlockData<Real>& g) const {
    Real* const p = At(layout_.direction[0]);
    const bool filtered = block_.filtered_grad.present() && program_.filter_keep != 0;
    Real* const h = filtered ? At(layout_.filtered) : nullptr;
    switch (program_.rule) {
      case DirectionRule::kPrecondition:
        return Precondition(g, h);
      case DirectionRule::kGraft:
        FilterGradient<Real>(program_, block_, g, arena_, h, p);
        break;
      case DirectionRule::kFiltered:
        FilterGradient<Real>(program_, block_, g, arena_, p, nullptr);
        break;
      case DirectionRule::kZero:
        FilterGradient<Real>(program_, block_, g, arena_, h, nullptr);
        std::fill(p, p + block_.elements, Real{0});
        break;
    }
    Apply(p, 1, 1, Norm(p));
  }

  void Precondition(const BlockData<Real>& g, Real* h) const {
    const double graft_square = FilterGradient<Real>(program_, block_, g, arena_, h, nullptr);
    const int64_t row = block_.order() == 2 ? block_.shape[1] : 0;
    BlockData<Real> p = h == nullptr ? g : BlockData<Real>{h, row};
    for (int k = 0; k < block_.order(); ++k) {
      Real* const next = At(layout_.direction[k % 2]);
      ContractDim(block_.shape, k, p, inverse_[static_cast<size_t>(k)], next);
      p = {next, row};
    }
    const double norm = Norm(p.data);
    if (program_.grafting == Grafting::kNone) return Apply(p.data, 1, 1, norm);
    // An infinite norm would scale P down to nothing, and NaN would be 0 times infinity.
    const double size = std::isfinite(norm) ? std::sqrt(graft_square) : norm;
    Apply(p.data, 1 / (norm + 1e-16), std::sqrt(graft_square), size);
  }

  double Norm(const Real* p) const { return std::sqrt(SumOfSquares(p, block_.elements)); }

  // size: a bound on the elements of the direction.
  void Apply(const Real* p, double scale_down, double scale_up, double size) const {
    if (!CanApply(program_, *item_.param, block_, *item_.buffers, p, scale_down, scale_up, size, arena_)) {
      WriteUnchanged(*item_.param, &block_, *item_.buffers, program_.output);
      *item_.stood_still = 1;
      return;
    }
    ApplyDirection(program_, *item_.param, block_, *item_.buffers, p, scale_down, scale_up, arena_);
  }

  const StepItem& item_;
  const StepProgram& program_;
  const Block& block_;
  char* const arena_;
  const SlotLayout& layout_;
  char* const workspace_;
  RecoveryMemory* const recovery_;
  std::array<Real*, kMaxDims> inverse_{};
  int64_t inverse_end_ = 0;  // elements
};

}  // namespace

void StepBlock(const StepItem& item, char* arena, const SlotLayout& layout, char* workspace, RecoveryMemory* recovery) {
  if (item.block->computation == Dtype::kF64) {
    BlockStep<double>(item, arena, layout, workspace, recovery).Run();
  } else {
    BlockStep<float>(item, arena, layout, workspace, recovery).Run();
  }
}

}  // namespace shampoo
