// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/block_step.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/backend/cpu/apply_pass.h"
#include "core/backend/cpu/factor_pair.h"
#include "core/backend/cpu/filter_pass.h"
#include "core/backend/cpu/fit_check.h"
#include "core/backend/cpu/kronecker.h"
#include "core/backend/cpu/root_refresh.h"
#include "core/base/kernels/kernels.h"

namespace shampoo {
namespace {

// The step of one block in the order of the program. Everything that lies in the arena in another dtype is widened
// before it is used, used unrounded, and rounded once when it is stored.
template <typename Real>
class BlockStep {
 public:
  BlockStep(const StepItem& item, const StepMemory& memory, Team::Worker* worker)
      : item_(item),
        program_(*item.program),
        block_(*item.block),
        memory_(memory),
        layout_(*memory.layout),
        own_(memory.workspace + layout_.ItemAt(worker->slot())),
        worker_(worker) {
    int64_t working = layout_.pairs;
    for (int k = 0; k < block_.factor_count(); ++k) {
      pairs_[static_cast<size_t>(k)] = FactorPair<Real>(block_, k, memory.arena, At(working));
      working += FactorPair<Real>::WorkingBytes(block_, k);
    }
  }

  void Run() {
    if (item_.skip_update) return SkipUpdate(item_);
    const BlockData<Real> g = ReadGradient();
    for (int k = 0; k < block_.factor_count(); ++k) UpdateFactorOf(k, g);
    if (item_.schedule.task == RootTask::kTakeSnapshot) TakeSnapshot();
    if (item_.schedule.refreshes()) RefreshRoots();
    if (int64_t* const step = SnapshotStep()) *step = SnapshotStepAfter(item_.schedule.task, *step, program_.t);
    ApplyDirectionOf(g);
  }

 private:
  Real* At(int64_t offset) const { return reinterpret_cast<Real*>(own_ + offset); }
  PhaseScope Scope(StepPhase part) const { return PhaseScope(worker_, memory_.times, part); }

  bool DenseInBuffer() const {
    const std::array<int64_t, kMaxDims> dense = DenseStrides(block_);
    for (int k = 0; k < block_.order(); ++k) {
      const auto at = static_cast<size_t>(k);
      if (block_.shape[k] != 1 && block_.stride[at] != dense[at]) return false;
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
    PhaseScope scope = Scope(StepPhase::kElementwise);
    Real* const g = At(layout_.gradient);
    scope.ForEach(PartCount(block_.elements), [&](int64_t i) {
      LoadGradient(program_, *item_.param, block_, *item_.buffers, PartAt(block_.elements, i), g);
    });
    return {g, row};
  }

  void UpdateFactorOf(int k, const BlockData<Real>& g) const {
    const FactorPair<Real>& pair = pairs_[static_cast<size_t>(k)];
    {
      const PhaseScope scope = Scope(StepPhase::kElementwise);
      pair.LoadFactor();
    }
    {
      PhaseScope scope = Scope(StepPhase::kFactorUpdate);
      UpdateFactor(block_.shape, k, g, static_cast<Real>(program_.factor_decay),
                   static_cast<Real>(program_.factor_weight), pair.factor(), pair.ld(), At(layout_.direction[0]),
                   &scope);
    }
    const PhaseScope scope = Scope(StepPhase::kElementwise);
    pair.StoreFactor();
    const bool wanted = item_.schedule.refreshes() || item_.schedule.rule == DirectionRule::kPrecondition;
    if (wanted) pair.LoadInverse();
  }

  // nullptr: the block keeps no snapshots.
  int64_t* SnapshotStep() const {
    if (!block_.snapshot_step.present()) return nullptr;
    return reinterpret_cast<int64_t*>(memory_.arena + block_.snapshot_step.offset);
  }

  Real* SnapshotOf(int k) const {
    return reinterpret_cast<Real*>(memory_.arena + block_.snapshot[static_cast<size_t>(k)].offset);
  }

  void TakeSnapshot() const {
    PhaseScope scope = Scope(StepPhase::kElementwise);
    constexpr int64_t kRows = 64;
    for (int k = 0; k < block_.order(); ++k) {
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
    std::copy_n(block_.shape.dims.begin(), block_.order(), sorted.begin());
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const auto root = [](void* step, Team::Worker& worker, int64_t k) {
      static_cast<BlockStep*>(step)->RefreshRootOf(static_cast<int>(k), &worker);
    };
    if (sorted[1] >= kRootsSideBySide) {
      worker_->RunInSlots(block_.order(), layout_.root_slots, root, this);
    } else {
      for (int k = 0; k < block_.order(); ++k) root(this, *worker_, k);
    }
  }

  void RefreshRootOf(int k, Team::Worker* worker) const {
    PhaseScope scope(worker, memory_.times, StepPhase::kRoots);
    const FactorPair<Real>& pair = pairs_[static_cast<size_t>(k)];
    char* const own = memory_.workspace + layout_.RootAt(worker->slot());
    const RootMemory memory{block_.root_dtype, own + layout_.root, reinterpret_cast<int32_t*>(own + layout_.root_ints),
                            memory_.recovery, &scope};
    const SymmetricView<Real> factor =
        item_.schedule.task == RootTask::kFromSnapshot
            ? SymmetricView<Real>{pair.d(), SnapshotOf(k), FactorCorrection(*program_.settings, *SnapshotStep()),
                                  pair.d()}
            : SymmetricView<Real>{pair.d(), pair.factor(), program_.factor_correction, pair.ld()};
    const SymmetricTarget<Real> inverse{pair.inverse(), pair.ld(), pair.full()};
    if (RefreshRoot(item_, k, factor, memory_.arena, memory, inverse)) pair.StoreInverse();
  }

  void ApplyDirectionOf(const BlockData<Real>& g) const {
    Real* const p = At(layout_.direction[0]);
    const bool filtered = block_.filtered_grad.present() && program_.filter_decay != 0;
    Real* const h = filtered ? At(layout_.filtered) : nullptr;
    switch (item_.schedule.rule) {
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
        std::fill(p, p + block_.elements, Real{0});
        break;
    }
    Apply(p, {1, 1, Norm(p)});
  }

  // |D|^2
  double Filter(const BlockData<Real>& g, Real* h, Real* d) const {
    PhaseScope scope = Scope(StepPhase::kElementwise);
    return SumOverParts(block_.elements, &scope, [&](const Range& part) {
      return FilterGradient<Real>(program_, block_, g, part, memory_.arena, h, d);
    });
  }

  void Precondition(const BlockData<Real>& g, Real* h) const {
    const double graft_square = Filter(g, h, nullptr);
    const int64_t row = block_.order() == 2 ? block_.shape[1] : 0;
    BlockData<Real> p = h == nullptr ? g : BlockData<Real>{h, row};
    {
      PhaseScope scope = Scope(StepPhase::kPreconditioning);
      for (int k = 0; k < block_.order(); ++k) {
        const FactorPair<Real>& pair = pairs_[static_cast<size_t>(k)];
        Real* const next = At(layout_.direction[k % 2]);
        // The gradient is not needed any more after the first dim, and only later ones need spare memory.
        ContractDim(block_.shape, k, p, {pair.inverse(), pair.ld(), pair.full()}, next, At(layout_.gradient), &scope);
        p = {next, row};
      }
    }
    const bool is_grafted = program_.grafting != Grafting::kNone;
    Apply(p.data, ScaleDirection(program_, is_grafted, Norm(p.data), std::sqrt(graft_square)));
  }

  double Norm(const Real* p) const {
    PhaseScope scope = Scope(StepPhase::kElementwise);
    return std::sqrt(SumOverParts(block_.elements, &scope, [&](const Range& part) {
      return BestKernels().Of<Real>().sum_of_squares(p + part.begin, part.end - part.begin);
    }));
  }

  void Apply(const Real* p, const DirectionScale& scale) const {
    PhaseScope scope = Scope(StepPhase::kElementwise);
    if (!CanApply(item_, p, scale, memory_.arena, &scope)) return SkipUpdate(item_);
    scope.ForEach(PartCount(block_.elements),
                  [&](int64_t i) { ApplyDirection(item_, PartAt(block_.elements, i), p, scale, memory_.arena); });
  }

  const StepItem& item_;
  const StepProgram& program_;
  const Block& block_;
  const StepMemory& memory_;
  const WorkspaceLayout& layout_;
  char* const own_;
  Team::Worker* const worker_;
  std::array<FactorPair<Real>, kMaxDims> pairs_;
};

}  // namespace

void StepBlock(const StepItem& item, const StepMemory& memory, Team::Worker* worker) {
  if (item.block->computation == Dtype::kF64) {
    BlockStep<double>(item, memory, worker).Run();
  } else {
    BlockStep<float>(item, memory, worker).Run();
  }
}

}  // namespace shampoo
