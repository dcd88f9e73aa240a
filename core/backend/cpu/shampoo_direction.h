// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <functional>

#include "core/backend/cpu/block_work.h"
#include "core/backend/cpu/factor_pair.h"
#include "core/backend/cpu/kronecker.h"
#include "core/backend/cpu/root_refresh.h"
#include "core/rules/step_scalars.h"

namespace shampoo {

// The method Shampoo on one block: its states are the factor matrices F_k, the inverse roots X_k and, with root_async,
// snapshots of F_k. Source: Distributed Shampoo (arXiv 2309.06497), algorithm 2.
//
// Another method is another class with Update() and Direction().
template <typename Real>
class ShampooDirection {
 public:
  explicit ShampooDirection(const BlockWork<Real>& work) : work_(work) {
    int64_t working = work_.layout.pairs;
    for (int k = 0; k < work_.block.factor_count(); ++k) {
      pairs_[static_cast<size_t>(k)] = FactorPair<Real>(work_.block, k, work_.memory.arena, work_.At(working));
      working += FactorPair<Real>::WorkingBytes(work_.block, k);
    }
  }

  // Takes the gradient into the states: F_k <- factor_decay F_k + factor_weight C_k, and the inverse roots if the
  // block's schedule says so.
  void Update(const BlockData<Real>& g) {
    for (int k = 0; k < work_.block.factor_count(); ++k) UpdateFactorOf(k, g);
    const RootSchedule& schedule = work_.item.schedule;
    if (schedule.task == RootTask::kTakeSnapshot) TakeSnapshot();
    if (schedule.refreshes()) RefreshRoots();
    if (int64_t* const step = SnapshotStep()) *step = SnapshotStepAfter(schedule.task, *step, work_.program.t);
  }

  // Returns P: the filtered gradient contracted with every inverse root. Overwrites the gradient's working memory.
  BlockData<Real> Direction(BlockData<Real> h) const {
    PhaseScope scope = work_.Scope(StepPhase::kPreconditioning);
    for (int k = 0; k < work_.block.order(); ++k) {
      const FactorPair<Real>& pair = pairs_[static_cast<size_t>(k)];
      Real* const next = work_.At(work_.layout.direction[k % 2]);
      // The gradient is not needed any more after the first dim, and only later ones need spare memory.
      ContractDim(work_.block.shape, k, h, {pair.inverse(), pair.ld(), pair.full()}, next,
                  work_.At(work_.layout.gradient), &scope);
      h = {next, work_.row()};
    }
    return h;
  }

 private:
  void UpdateFactorOf(int k, const BlockData<Real>& g) const {
    const FactorPair<Real>& pair = pairs_[static_cast<size_t>(k)];
    {
      const PhaseScope scope = work_.Scope(StepPhase::kElementwise);
      pair.LoadFactor();
    }
    {
      PhaseScope scope = work_.Scope(StepPhase::kFactorUpdate);
      UpdateFactor(work_.block.shape, k, g, static_cast<Real>(work_.program.factor_decay),
                   static_cast<Real>(work_.program.factor_weight), pair.factor(), pair.ld(),
                   work_.At(work_.layout.direction[0]), &scope);
    }
    const PhaseScope scope = work_.Scope(StepPhase::kElementwise);
    pair.StoreFactor();
    const bool wanted = work_.item.schedule.refreshes() || work_.item.schedule.rule == DirectionRule::kPrecondition;
    if (wanted) pair.LoadInverse();
  }

  // Where the block keeps the step of its roots and snapshots; nullptr: it keeps no snapshots.
  int64_t* SnapshotStep() const {
    if (!work_.block.snapshot_step.present()) return nullptr;
    return reinterpret_cast<int64_t*>(work_.memory.arena + work_.block.snapshot_step.offset);
  }

  Real* SnapshotOf(int k) const {
    return reinterpret_cast<Real*>(work_.memory.arena + work_.block.snapshot[static_cast<size_t>(k)].offset);
  }

  void TakeSnapshot() const {
    PhaseScope scope = work_.Scope(StepPhase::kElementwise);
    constexpr int64_t kRows = 64;
    for (int k = 0; k < work_.block.order(); ++k) {
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
    std::copy_n(work_.block.shape.dims.begin(), work_.block.order(), sorted.begin());
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const auto root = [](void* step, Team::Worker& worker, int64_t k) {
      static_cast<ShampooDirection*>(step)->RefreshRootOf(static_cast<int>(k), &worker);
    };
    if (sorted[1] >= kRootsSideBySide) {
      work_.worker->RunInSlots(work_.block.order(), work_.layout.root_slots, root, this);
    } else {
      for (int k = 0; k < work_.block.order(); ++k) root(this, *work_.worker, k);
    }
  }

  void RefreshRootOf(int k, Team::Worker* worker) const {
    PhaseScope scope(worker, work_.memory.times, StepPhase::kRoots);
    const FactorPair<Real>& pair = pairs_[static_cast<size_t>(k)];
    char* const own = work_.memory.workspace + work_.layout.RootAt(worker->slot());
    const RootMemory memory{work_.block.root_dtype, own + work_.layout.root,
                            reinterpret_cast<int32_t*>(own + work_.layout.root_ints), work_.memory.recovery, &scope};
    const SymmetricView<Real> factor =
        work_.item.schedule.task == RootTask::kFromSnapshot
            ? SymmetricView<Real>{pair.d(), SnapshotOf(k), FactorCorrection(*work_.program.settings, *SnapshotStep()),
                                  pair.d()}
            : SymmetricView<Real>{pair.d(), pair.factor(), work_.program.factor_correction, pair.ld()};
    const SymmetricTarget<Real> inverse{pair.inverse(), pair.ld(), pair.full()};
    if (RefreshRoot(work_.item, k, factor, work_.memory.arena, memory, inverse)) pair.StoreInverse();
  }

  const BlockWork<Real>& work_;
  std::array<FactorPair<Real>, kMaxDims> pairs_;
};

}  // namespace shampoo
