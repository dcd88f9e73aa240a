// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "core/backend/cpu/block_context.h"
#include "core/backend/cpu/factor_pair.h"
#include "core/backend/cpu/kronecker.h"
#include "core/backend/cpu/root_refresh.h"
#include "core/base/kernels/kernels.h"
#include "core/rules/growth.h"
#include "core/rules/step_scalars.h"

namespace shampoo {

// Computes Shampoo's direction for one block. The states are the factor matrices F_k, the inverse roots X_k and, with
// root_async, snapshots of F_k. Source: Distributed Shampoo (arXiv 2309.06497), algorithm 2.
//
// To add a method without eigenbases, write another class that is constructed from a BlockContext and has the functions
// Update() and Direction(). Select the new class in StepBlock().
template <typename Real>
class ShampooDirection {
 public:
  explicit ShampooDirection(const BlockContext<Real>& work) : context_(work) {
    int64_t working = context_.layout.pairs;
    for (int k = 0; k < context_.block.factor_count(); ++k) {
      if (!context_.block.has_factor(k)) continue;
      pairs_[static_cast<size_t>(k)] = FactorPair<Real>(context_.block, k, context_.memory.arena, context_.At(working));
      working += FactorPair<Real>::WorkingBytes(context_.block, k);
    }
  }

  // Updates the states with the gradient: F_k <- factor_decay F_k + factor_weight C_k, where C_k is the gradient
  // contracted with itself over all dims except k. Also refreshes inverse roots or takes snapshots if the schedule of
  // the block requires this. With factor_correction=kl, C_k is computed from Whiten(k, g) instead of the gradient. If
  // adding this C_k could overflow the dtype of F_k, Update() changes only the factor matrices of the dims before k and
  // returns false. Otherwise Update() returns true.
  bool Update(const BlockData<Real>& g) {
    const bool is_kl = context_.program.settings->factor_correction == FactorTerm::kKl;
    for (int k = 0; is_kl && k < context_.block.factor_count(); ++k) {
      if (context_.block.has_factor(k)) pairs_[static_cast<size_t>(k)].LoadInverse();
    }
    for (int k = 0; k < context_.block.factor_count(); ++k) {
      if (!context_.block.has_factor(k)) continue;
      const BlockData<Real> term = is_kl && context_.program.updates_factors ? Whiten(k, g) : g;
      if (term.data != g.data && !FactorFits(k, term)) {
        for (int i = 0; i < context_.block.factor_count(); ++i) context_.item.roots[i].is_stale = true;
        return false;
      }
      UpdateFactorOf(k, term);
    }
    const RootSchedule& schedule = context_.item.schedule;
    if (schedule.task == RootTask::kTakeSnapshot) TakeSnapshot();
    if (schedule.refreshes()) RefreshRoots();
    if (int64_t* const step = SnapshotStep()) *step = SnapshotStepAfter(schedule.task, *step, context_.program.t);
    return true;
  }

  // Returns P: `h`, the filtered gradient, contracted with every inverse root. Overwrites WorkspaceLayout::gradient.
  BlockData<Real> Direction(BlockData<Real> h) const {
    Real* const first = context_.At(context_.layout.direction[0]);
    // `h` may be in the memory of the gradient. Only the first contraction reads `h`, and only later ones overwrite it.
    return Contract(h, first, context_.At(context_.layout.direction[1]), context_.At(context_.layout.gradient), -1);
  }

 private:
  // Contracts a tensor with the inverse roots of all dims except `except`, one dim after the other. If `except` is -1,
  // no dim is omitted. Writes the results to `a` and `b` alternately. The first contraction uses `b` as working
  // memory, because `b` has no result yet. spare: the working memory of all later contractions.
  BlockData<Real> Contract(BlockData<Real> tensor, Real* a, Real* b, Real* spare, int except) const {
    PhaseScope scope = context_.Scope(StepPhase::kPreconditioning);
    Real* free_memory = b;
    for (int k = 0; k < context_.block.order(); ++k) {
      if (!context_.block.has_factor(k) || k == except) continue;
      ContractDim(context_.block.shape, k, tensor, pairs_[static_cast<size_t>(k)].inverse_operand(), a, free_memory,
                  &scope);
      tensor = {a, context_.row()};
      std::swap(a, b);
      free_memory = spare;
    }
    return tensor;
  }

  // Returns the gradient contracted with the current inverse roots of all dims except k. Source: KL-Shampoo (arXiv
  // 2509.03378).
  BlockData<Real> Whiten(int k, const BlockData<Real>& g) const {
    return Contract(g, context_.At(context_.layout.direction[0]), context_.At(context_.layout.direction[1]),
                    context_.At(context_.layout.filtered), k);
  }

  bool FactorFits(int k, const BlockData<Real>& term) const {
    const double square = BestKernels().Of<Real>().sum_of_squares(term.data, context_.block.elements);
    const Dtype factor = context_.block.factor[static_cast<size_t>(k)].dtype;
    return TermFits(square, context_.program.factor_weight, context_.block.computation, factor);
  }

  // Returns memory for a tensor as large as `tensor`. This memory does not overlap `tensor`.
  Real* SpareBeside(const BlockData<Real>& tensor) const {
    Real* const first = context_.At(context_.layout.direction[0]);
    return tensor.data == first ? context_.At(context_.layout.direction[1]) : first;
  }

  void UpdateFactorOf(int k, const BlockData<Real>& g) const {
    const FactorPair<Real>& pair = pairs_[static_cast<size_t>(k)];
    {
      const PhaseScope scope = context_.Scope(StepPhase::kElementwise);
      pair.LoadFactor();
    }
    if (context_.program.updates_factors) {
      PhaseScope scope = context_.Scope(StepPhase::kFactorUpdate);
      UpdateFactor(context_.block.shape, k, g, static_cast<Real>(context_.program.factor_decay),
                   static_cast<Real>(context_.program.factor_weight), pair.factor(), pair.ld(), SpareBeside(g), &scope);
    }
    const PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    pair.StoreFactor();
    const bool wanted =
        context_.item.schedule.refreshes() || context_.item.schedule.rule == DirectionRule::kPrecondition;
    if (wanted) pair.LoadInverse();
  }

  // Returns the state snapshot_step of the block, or nullptr if the block has no snapshots.
  int64_t* SnapshotStep() const {
    if (!context_.block.snapshot_step.present()) return nullptr;
    return reinterpret_cast<int64_t*>(context_.memory.arena + context_.block.snapshot_step.offset);
  }

  Real* SnapshotOf(int k) const {
    return reinterpret_cast<Real*>(context_.memory.arena + context_.block.snapshot[static_cast<size_t>(k)].offset);
  }

  void TakeSnapshot() const {
    PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    constexpr int64_t kRows = 64;
    for (int k = 0; k < context_.block.order(); ++k) {
      if (!context_.block.has_factor(k)) continue;
      const FactorPair<Real>& pair = pairs_[static_cast<size_t>(k)];
      scope.ForEach((pair.d() + kRows - 1) / kRows, [&](int64_t part) {
        for (int64_t row = part * kRows; row < std::min(pair.d(), (part + 1) * kRows); ++row) {
          std::copy_n(pair.factor() + row * pair.ld(), row + 1, SnapshotOf(k) + row * pair.d());
        }
      });
    }
  }

  void RefreshRoots() {
    std::array<int64_t, kMaxDims> sorted{};
    for (int k = 0; k < context_.block.order(); ++k) {
      if (context_.block.has_factor(k)) sorted[static_cast<size_t>(k)] = context_.block.shape[k];
    }
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const auto root = [](void* step, Team::Worker& worker, int64_t k) {
      static_cast<ShampooDirection*>(step)->RefreshRootOf(static_cast<int>(k), &worker);
    };
    if (sorted[1] >= kRootsSideBySide) {
      context_.worker->RunInSlots(context_.block.order(), context_.layout.root_slots, root, this);
    } else {
      for (int k = 0; k < context_.block.order(); ++k) root(this, *context_.worker, k);
    }
  }

  void RefreshRootOf(int k, Team::Worker* worker) const {
    if (!context_.block.has_factor(k)) return;
    PhaseScope scope(worker, context_.memory.times, StepPhase::kRoots);
    const FactorPair<Real>& pair = pairs_[static_cast<size_t>(k)];
    char* const own = context_.memory.workspace + context_.layout.RootAt(worker->slot());
    const RootMemory memory{context_.block.root_dtype, own + context_.layout.root,
                            reinterpret_cast<int32_t*>(own + context_.layout.root_ints), context_.memory.recovery,
                            &scope};
    const SymmetricView<Real> factor =
        context_.item.schedule.task == RootTask::kFromSnapshot
            ? SymmetricView<Real>{pair.d(), SnapshotOf(k),
                                  FactorCorrection(*context_.program.settings, *SnapshotStep()), pair.d()}
            : SymmetricView<Real>{pair.d(), pair.factor(), context_.program.factor_correction, pair.ld()};
    const SymmetricTarget<Real> inverse{pair.inverse(), pair.ld(), pair.full()};
    if (RefreshRoot(context_.item, k, factor, context_.memory.arena, memory, inverse)) pair.StoreInverse();
  }

  const BlockContext<Real>& context_;
  std::array<FactorPair<Real>, kMaxDims> pairs_;
};

}  // namespace shampoo
