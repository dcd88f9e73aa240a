// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/basis_step.h"

#include <algorithm>
#include <limits>

#include "core/backend/cpu/basis_eigenvalues.h"
#include "core/backend/cpu/basis_factors.h"
#include "core/backend/cpu/basis_refresh.h"
#include "core/backend/cpu/basis_rotation.h"
#include "core/backend/cpu/basis_states.h"
#include "core/backend/cpu/block_context.h"
#include "core/backend/cpu/block_io.h"
#include "core/backend/cpu/filter_pass.h"
#include "core/roots/orthogonalize.h"
#include "core/rules/basis.h"

namespace shampoo {
namespace {

// Runs the step of one block with method soap or kl_shampoo. This class computes and applies the direction. Separate
// classes update the factor matrices, the eigenvalues and the eigenbases.
template <typename Real>
class BasisStep {
 public:
  BasisStep(const StepItem& item, const StepMemory& memory, Team::Worker* worker)
      : context_(item, memory, worker),
        io_(context_),
        states_(context_),
        rotation_(context_, states_),
        eigenvalues_(context_, states_),
        factors_(context_, scalars_, states_, rotation_, eigenvalues_),
        refresh_(context_, states_, eigenvalues_),
        settings_(*item.program->settings),
        program_(context_.program) {}

  void Run() {
    if (context_.item.skip_update) return SkipUpdate(context_.item);
    const BlockData<Real> g = io_.ReadGradient();
    scalars_ = MakeBasisScalars(settings_, program_, ++*states_.gradient_count());
    static_cast<StepScalars&>(program_) = scalars_;
    factors_.Load();
    if (settings_.basis_order == BasisOrder::kBefore) {
      RunBefore(g);
    } else if (scalars_.is_first) {
      RunFirst(g);
    } else {
      RunAfter(g);
    }
  }

 private:
  Real* Buffer(int64_t offset) const { return context_.At(offset); }
  Real* spare() const { return Buffer(context_.layout.spare); }

  // Makes a step with basis_order=before: updates the factor matrices and the eigenbases, and then computes the
  // direction from the same gradient.
  void RunBefore(const BlockData<Real>& g) {
    const bool fits = !states_.is_kl() || factors_.UpdateWhitened(g, rotation_.Rotate(g));
    if (!states_.is_kl()) factors_.Update(g, scalars_.factor_weight);
    if (context_.item.schedule.refreshes()) {
      refresh_.Run(scalars_.basis_correction, Buffer(context_.layout.direction[0]),
                   Buffer(context_.layout.direction[1]), Buffer(context_.layout.filtered), spare());
    }
    factors_.Store();
    const Contracted<Real> r = rotation_.Rotate(g);
    if (settings_.grafting == Grafting::kNone) {
      Filter(r.data, nullptr);
      return Apply(Back(), fits);
    }
    UpdateGrafting(g);
    Real* const h = Buffer(context_.layout.gradient);  // the gradient is not needed any more
    Filter(r.data, h);
    ApplyGrafted(h, fits);
  }

  // Updates the second moment of the grafting method.
  void UpdateGrafting(const BlockData<Real>& g) const {
    const StateSlot& slot = context_.block.grafting;
    if (!slot.present()) return;
    const GraftingScalars scalars = MakeGraftingScalars(settings_, scalars_.update);
    const auto decay = static_cast<Real>(scalars.decay);
    const auto weight = static_cast<Real>(scalars.weight);
    const int64_t row = context_.row() > 0 ? context_.row() : context_.block.elements;
    const BlockRounding rounding = BlockRounding::OfState(context_.item, RoundedState::kGrafting);
    MutableOperand<Real> moment(context_.memory.arena + slot.offset, slot.dtype, &rounding);
    for (int64_t i = 0; i * row < context_.block.elements; ++i) {
      ForEachChunk({i * row, (i + 1) * row}, [&](int64_t at, int64_t n) {
        Real* const v = moment.Open(at, n);
        const Real* const gradient = g.data + i * g.ld + (at - i * row);
        for (int64_t j = 0; j < n; ++j) v[j] = NextAverage(decay, v[j], weight, gradient[j] * gradient[j]);
        moment.Close(at, n);
      });
    }
  }

  // Applies the direction that is in the buffer `filtered`, with the length of the grafting method's direction. Before
  // start_preconditioning_step, applies the grafting method's direction instead. h: the filtered gradient in the
  // eigenbases.
  void ApplyGrafted(Real* h, bool fits) const {
    const Contracted<Real> back = rotation_.RotateBack(h);
    Real* const x = back.own != nullptr ? back.own : h;
    if (context_.block.grafting.present()) DivideByGrafting(MakeGraftingScalars(settings_, scalars_.update), x);
    const double length = io_.Norm(x);
    if (scalars_.update < settings_.start_preconditioning_step) {
      return fits ? io_.Apply(x, {1, 1, length}) : SkipUpdate(context_.item);
    }
    if (!fits) return SkipUpdate(context_.item);
    const Real* const direction = Post(Back());
    io_.Apply(direction, ScaleDirection(program_, true, io_.Norm(direction), length));
  }

  void DivideByGrafting(const GraftingScalars& scalars, Real* h) const {
    const StateSlot& slot = context_.block.grafting;
    Operand<Real> moment(context_.memory.arena + slot.offset, slot.dtype);
    FilterScalars<Real> filter{};
    filter.moment_correction = static_cast<Real>(scalars.correction);
    filter.moment_epsilon = static_cast<Real>(scalars.epsilon);
    ForEachChunk({0, context_.block.elements}, [&](int64_t at, int64_t n) {
      const Real* const v = moment.Read(at, n);
      for (int64_t i = 0; i < n; ++i) h[at + i] = MomentDirection(filter, h[at + i], v[i]);
    });
  }

  // Makes the first step with basis_order=after: initializes the factor matrices and the eigenbases from the gradient.
  // The gradient is not whitened (basis_eigenvalues.h), because there are no eigenbases yet. With kl_init=auto, Start()
  // sets all eigenvalues to the same number. Start() returns the factor by which whitening with these eigenvalues would
  // scale the products of the gradient with itself.
  void RunFirst(const BlockData<Real>& g) {
    double weight = scalars_.factor_weight;
    if (states_.is_kl() && StartsFromGradient(settings_)) weight *= eigenvalues_.Start(g);
    factors_.Update(g, weight);
    refresh_.Initialize();
    if (scalars_.update < 1) {
      factors_.Store();
      return io_.ApplyNothing(Buffer(context_.layout.direction[0]));
    }
    const Contracted<Real> r = rotation_.Rotate(g);
    Filter(r.data, nullptr);
    const Real* const direction = Back();
    // If the block has no factor matrices, the direction is in the buffer `filtered`, which a refresh would overwrite.
    // For such a block, refreshes() is false.
    if (context_.item.schedule.refreshes() && IsBasisDue(settings_, 1)) RefreshAfter(direction);
    factors_.Store();
    Apply(direction, true);
  }

  // Makes a later step with basis_order=after: computes the direction in the current bases, and then updates the factor
  // matrices and the eigenbases.
  void RunAfter(const BlockData<Real>& g) {
    if (states_.is_kl() && StartsFromGradient(settings_) && factors_.AreNegligible()) eigenvalues_.Start(g);
    const Contracted<Real> r = rotation_.Rotate(g);
    Filter(r.data, nullptr);
    const bool fits = !states_.is_kl() || factors_.UpdateWhitened(g, r);
    const Real* const direction = Back();
    if (!states_.is_kl()) factors_.Update(g, scalars_.factor_weight);
    if (context_.item.schedule.refreshes()) RefreshAfter(direction);
    factors_.Store();
    Apply(direction, fits);
  }

  // Refreshes the bases without overwriting the direction, which is in one of the two buffers `direction`.
  void RefreshAfter(const Real* direction) {
    Real* const first = Buffer(context_.layout.direction[0]);
    refresh_.Run(scalars_.basis_correction, direction == first ? Buffer(context_.layout.direction[1]) : first,
                 Buffer(context_.layout.filtered), spare(), Buffer(context_.layout.gradient));
  }

  // Rotates the direction that is in the buffer `filtered` back from the eigenbases. Returns the result.
  const Real* Back() const { return rotation_.RotateBack(Buffer(context_.layout.filtered)).data.data; }

  // Updates the filtered gradient and the second moment, and writes the direction in the eigenbases to `filtered`.
  // r: the gradient in the eigenbases. copy: receives the filtered gradient; nullptr if the caller does not need it.
  void Filter(const BlockData<Real>& r, Real* copy) {
    Real* const d = Buffer(context_.layout.filtered);
    const bool has_moment = context_.block.second_moment.present();
    const bool is_root = settings_.inverse_exponent == 0.5;
    if (has_moment && context_.block.is_rotated()) {
      const Dtype computation = context_.block.computation;
      if (RelativeEpsilon(settings_, computation) > 0) {
        program_.moment_epsilon += AddedEpsilon(settings_, computation, program_.moment_correction, LargestMoment(r));
      }
    }
    PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    const bool writes_direction = has_moment && is_root && copy == nullptr;
    const bool filters = context_.block.filtered_grad.present() && program_.filter_decay != 0;
    Real* const h = filters || !writes_direction ? d : nullptr;
    scope.ForEach(PartCount(context_.block.elements), [&](int64_t i) {
      FilterGradient<Real>(program_, context_.item, r, PartAt(context_.block.elements, i), context_.memory.arena, h,
                           writes_direction ? d : nullptr);
    });
    if (copy != nullptr) std::copy_n(d, context_.block.elements, copy);
    if (!has_moment) return ScaleByEigenvalues(d);
    if (!writes_direction) DivideByPower(d);
  }

  // Returns the largest element that the second moment will have after this update. r must be dense.
  double LargestMoment(const BlockData<Real>& r) const {
    PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    const FilterScalars<Real> scalars = MakeFilterScalars<Real>(program_);
    double largest[kMaxParts] = {};
    const int64_t parts = PartCount(context_.block.elements);
    scope.ForEach(parts, [&](int64_t i) {
      Operand<Real> moment(context_.memory.arena + context_.block.second_moment.offset,
                           context_.block.second_moment.dtype);
      Real of_part = 0;
      ForEachChunk(PartAt(context_.block.elements, i), [&](int64_t at, int64_t n) {
        const Real* const v = moment.Read(at, n);
        of_part = std::max(of_part, BestKernels().Of<Real>().largest_next_moment(scalars, r.data + at, v, n));
      });
      largest[i] = static_cast<double>(of_part);
    });
    return *std::max_element(largest, largest + parts);
  }

  // Divides H by the power inverse_exponent of the second moment. Filter() does not call this function if the exponent
  // is 1/2 and the argument `copy` of Filter() is nullptr, because FilterGradient() has then divided H.
  void DivideByPower(Real* h) const {
    Operand<Real> moment(context_.memory.arena + context_.block.second_moment.offset,
                         context_.block.second_moment.dtype);
    ForEachChunk({0, context_.block.elements}, [&](int64_t at, int64_t n) {
      const Real* const v = moment.Read(at, n);
      for (int64_t i = 0; i < n; ++i) {
        h[at + i] = PowerDirection(settings_.inverse_exponent, program_.moment_correction, program_.moment_epsilon,
                                   h[at + i], v[i]);
      }
    });
  }

  // Computes h <- h a / (1 + a epsilon), where a is the outer product of the inverse square roots of the eigenvalues.
  void ScaleByEigenvalues(Real* h) const {
    const auto epsilon = static_cast<Real>(settings_.epsilon);
    Real* const a = spare();
    std::fill(a, a + context_.block.elements, Real{1});
    eigenvalues_.Whiten(-1, a);
    BestKernels().Of<Real>().scale_damped(a, epsilon, h, context_.block.elements);
  }

  // Applies a direction without grafting. fits: false if a state would overflow; the update is then skipped.
  void Apply(const Real* direction, bool fits) const {
    if (!fits) return SkipUpdate(context_.item);
    direction = Post(direction);
    io_.Apply(direction, {1, 1, io_.Norm(direction)});
  }

  // Orthogonalizes the direction if soap_post requires it. Returns the direction. Overwrites the working copy of the
  // factor matrices, which the step has already stored in the arena.
  const Real* Post(const Real* direction) const {
    if (!context_.block.has_orthogonal_direction()) return direction;
    PhaseScope scope = context_.Scope(StepPhase::kPreconditioning);
    Real* const d = spare();
    std::copy_n(direction, context_.block.elements, d);
    const OrthogonalizeMemory<Real> memory{Buffer(context_.layout.pairs), &scope};
    // If the orthogonalization fails, the NaN in the direction makes Apply() skip the update.
    const bool done =
        Orthogonalize(settings_, context_.block.orthogonal_rows, context_.block.orthogonal_columns(), d, memory);
    if (!done) d[0] = std::numeric_limits<Real>::quiet_NaN();
    return d;
  }

  const BlockContext<Real> context_;
  const BlockIo<Real> io_;
  const BasisStates<Real> states_;
  const BasisRotation<Real> rotation_;
  const BasisEigenvalues<Real> eigenvalues_;
  const BasisFactors<Real> factors_;
  const BasisRefresh<Real> refresh_;
  const Settings& settings_;
  BasisScalars scalars_;
  StepProgram program_;  // a copy of the group's StepProgram, with the scalars of this block
};

}  // namespace

void StepInBasis(const StepItem& item, const StepMemory& memory, Team::Worker* worker) {
  if (item.block->computation == Dtype::kF64) {
    BasisStep<double>(item, memory, worker).Run();
  } else {
    BasisStep<float>(item, memory, worker).Run();
  }
}

}  // namespace shampoo
