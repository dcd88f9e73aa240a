// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/basis_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/backend/cpu/basis_states.h"
#include "core/backend/cpu/block_context.h"
#include "core/backend/cpu/block_io.h"
#include "core/backend/cpu/filter_pass.h"
#include "core/backend/cpu/magnitude.h"
#include "core/backend/cpu/tensor_dims.h"
#include "core/roots/eigenbasis.h"
#include "core/roots/matrix.h"
#include "core/roots/orthogonalize.h"
#include "core/rules/basis.h"
#include "core/rules/growth.h"

namespace shampoo {
namespace {

// A contracted tensor of the block's shape. `own` is the buffer that holds it, or nullptr if nothing was contracted.
// half: for a matrix, the buffer with the tensor contracted along the last dim alone.
template <typename Real>
struct Contracted {
  BlockData<Real> data;
  Real* own = nullptr;
  Real* half = nullptr;
};

template <typename Real>
class BasisStep {
 public:
  BasisStep(const StepItem& item, const StepMemory& memory, Team::Worker* worker)
      : context_(item, memory, worker),
        io_(context_),
        states_(context_),
        settings_(*item.program->settings),
        shape_(context_.block.shape),
        program_(context_.program) {}

  void Run() {
    if (context_.item.skip_update) return SkipUpdate(context_.item);
    const BlockData<Real> g = io_.ReadGradient();
    const int64_t gradient = ++*states_.gradient_count();
    const int64_t update = UpdatesOf(settings_, gradient);
    if (update > 0) CorrectBias(settings_, update, &program_);
    if (update > 0 && !UpdatesFactors(settings_, update)) KeepFactors(&program_);
    LoadFactors();
    if (settings_.basis_order == BasisOrder::kBefore) {
      RunBefore(g, update);
    } else if (gradient == 1) {
      RunFirst(g, update);
    } else {
      RunAfter(g);
    }
  }

 private:
  Real* Buffer(int64_t offset) const { return context_.At(offset); }
  Real* spare() const { return Buffer(context_.layout.spare); }
  bool is_kl() const { return settings_.factor_correction == FactorTerm::kKl; }
  int dims() const { return context_.block.factor_count(); }

  // Factor matrices, eigenbases, then the direction: all from the same gradient.
  void RunBefore(const BlockData<Real>& g, int64_t update) {
    const bool fits = !is_kl() || UpdateKlFactors(g, Rotate(g));
    if (!is_kl()) UpdateFactors(g, program_.factor_weight);
    if (context_.item.schedule.refreshes()) {
      Refresh(update, Buffer(context_.layout.direction[0]), Buffer(context_.layout.direction[1]),
              Buffer(context_.layout.filtered), spare());
    }
    StoreFactors();
    const Contracted<Real> r = Rotate(g);
    if (settings_.grafting == Grafting::kNone) {
      Filter(r.data, nullptr);
      return Apply(Back(), fits);
    }
    UpdateGrafting(g, update);
    Real* const h = Buffer(context_.layout.gradient);  // the gradient is not needed any more
    Filter(r.data, h);
    ApplyGrafted(h, update, fits);
  }

  // Updates the second moment of the grafting method.
  void UpdateGrafting(const BlockData<Real>& g, int64_t update) const {
    const StateSlot& slot = context_.block.grafting;
    if (!slot.present()) return;
    const GraftingScalars scalars = MakeGraftingScalars(settings_, update);
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

  // Applies the direction in the buffer `filtered` with the length of the direction of the grafting method, or that
  // direction itself before the first refresh. h: the filtered gradient in the eigenbasis.
  void ApplyGrafted(Real* h, int64_t update, bool fits) const {
    Real* const first = Buffer(context_.layout.direction[0]);
    Real* const second = Buffer(context_.layout.direction[1]);
    const Contracted<Real> back =
        Contract({h, context_.row()}, MatrixForm::kTransposed, first, second, [](int) { return true; });
    Real* const x = back.own != nullptr ? back.own : h;
    if (context_.block.grafting.present()) DivideByGrafting(MakeGraftingScalars(settings_, update), x);
    const double length = io_.Norm(x);
    if (update < settings_.start_preconditioning_step) {
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

  // The first gradient initializes the factor matrices and the eigenbases. It is not whitened, because there are no
  // eigenvalues yet. With kl_init auto, its term gets the scale of a whitened one.
  void RunFirst(const BlockData<Real>& g, int64_t update) {
    double weight = FirstFactorWeight(settings_, program_);
    if (is_kl() && StartsFromGradient(settings_)) weight *= StartEigenvalues(g);
    UpdateFactors(g, weight);
    InitializeBases();
    if (update < 1) {
      StoreFactors();
      return io_.ApplyNothing(Buffer(context_.layout.direction[0]));
    }
    const Contracted<Real> r = Rotate(g);
    Filter(r.data, nullptr);
    const Real* const direction = Back();
    // A block without factor matrices has no task, and its direction is in a buffer that a refresh overwrites.
    if (context_.item.schedule.refreshes() && IsBasisDue(settings_, 1)) RefreshAfter(direction);
    StoreFactors();
    Apply(direction, true);
  }

  // Returns whether all factor matrices are negligible: no gradient has changed them noticeably, or they have decayed.
  bool AreFactorsNegligible() const {
    for (int k = 0; k < dims(); ++k) {
      if (!states_.has_factor(k)) continue;
      const int64_t d = states_.d(k);
      const double trace = TraceOf(SymmetricView<Real>{d, states_.factor(k)});
      if (!IsNegligible(trace / static_cast<double>(d), context_.block.computation)) return false;
    }
    return true;
  }

  // Sets the eigenvalues from a gradient. Returns the scale of its term in the factor matrices if it is the first
  // gradient of the block.
  double StartEigenvalues(const BlockData<Real>& g) const {
    const PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    int factors = 0;
    for (int k = 0; k < dims(); ++k) factors += states_.has_factor(k) ? 1 : 0;
    if (factors == 0) return 1;
    const int64_t row = context_.row() > 0 ? context_.row() : context_.block.elements;
    double square = 0;
    for (int64_t i = 0; i * row < context_.block.elements; ++i) {
      square += BestKernels().Of<Real>().sum_of_squares(g.data + i * g.ld, row);
    }
    const double mean = square / static_cast<double>(context_.block.elements);
    const double scale = 1 / std::sqrt(FirstEigenvalue(mean, factors, context_.block.computation));
    for (int k = 0; k < dims(); ++k) {
      if (states_.has_factor(k)) std::fill_n(states_.scale(k), states_.d(k), static_cast<Real>(scale));
    }
    return FirstTermScale(settings_, scale, factors);
  }

  // The direction in the present bases, then factor matrices and eigenbases.
  void RunAfter(const BlockData<Real>& g) {
    if (is_kl() && StartsFromGradient(settings_) && AreFactorsNegligible()) StartEigenvalues(g);
    const Contracted<Real> r = Rotate(g);
    Filter(r.data, nullptr);
    const bool fits = !is_kl() || UpdateKlFactors(g, r);
    const Real* const direction = Back();
    if (!is_kl()) UpdateFactors(g, program_.factor_weight);
    if (context_.item.schedule.refreshes()) RefreshAfter(direction);
    StoreFactors();
    Apply(direction, fits);
  }

  // Refreshes while the direction is in one of the buffers `direction`.
  void RefreshAfter(const Real* direction) {
    Real* const first = Buffer(context_.layout.direction[0]);
    Refresh(0, direction == first ? Buffer(context_.layout.direction[1]) : first, Buffer(context_.layout.filtered),
            spare(), Buffer(context_.layout.gradient));
  }

  void LoadFactors() const {
    const PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    for (int k = 0; k < dims(); ++k) {
      if (states_.has_factor(k)) states_.LoadFactor(k);
    }
  }
  void StoreFactors() const {
    const PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    for (int k = 0; k < dims(); ++k) {
      if (states_.has_factor(k)) states_.StoreFactor(k);
    }
  }

  MatrixOperand<Real> Basis(int k, MatrixForm form) const { return {states_.basis(k), states_.d(k), form}; }

  // Contracts `from` with the bases of the dims for which takes(k) is true, the last dim first. Writes to `a` and `b`
  // in turn.
  template <typename Takes>
  Contracted<Real> Contract(const BlockData<Real>& from, MatrixForm form, Real* a, Real* b, const Takes& takes) const {
    PhaseScope scope = context_.Scope(StepPhase::kPreconditioning);
    Contracted<Real> result{from};
    for (int k = dims() - 1; k >= 0; --k) {
      if (!states_.has_factor(k) || !takes(k)) continue;
      ContractDim(shape_, k, result.data, Basis(k, form), a, spare(), &scope);
      result = {{a, context_.row()}, a, result.own};
      std::swap(a, b);
    }
    return result;
  }

  Contracted<Real> Rotate(const BlockData<Real>& g) const {
    return Contract(g, MatrixForm::kGeneral, Buffer(context_.layout.direction[0]), Buffer(context_.layout.direction[1]),
                    [](int) { return true; });
  }

  // Rotates the direction in the buffer `filtered` back.
  const Real* Back() const {
    return Contract({Buffer(context_.layout.filtered), context_.row()}, MatrixForm::kTransposed,
                    Buffer(context_.layout.direction[0]), Buffer(context_.layout.direction[1]),
                    [](int) { return true; })
        .data.data;
  }

  // Updates the filtered gradient and the second moment, and writes the direction in the eigenbasis to `filtered`.
  // copy: receives the filtered gradient; nullptr if it is not needed.
  void Filter(const BlockData<Real>& r, Real* copy) {
    Real* const d = Buffer(context_.layout.filtered);
    const bool has_moment = context_.block.second_moment.present();
    const bool is_root = settings_.inverse_exponent == 0.5;
    if (has_moment && context_.block.is_rotated()) {
      const double relative = RelativeEpsilon(settings_, context_.block.computation);
      if (relative > 0) {
        const double largest = LargestMoment(r) / program_.moment_correction;
        program_.moment_epsilon += relative * std::pow(largest, settings_.inverse_exponent);
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

  // Returns the largest element that the second moment will have after this update. r: dense.
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

  // Divides H by the power of the second moment, where the power is not 1/2.
  void DivideByPower(Real* h) const {
    Operand<Real> moment(context_.memory.arena + context_.block.second_moment.offset,
                         context_.block.second_moment.dtype);
    ForEachChunk({0, context_.block.elements}, [&](int64_t at, int64_t n) {
      const Real* const v = moment.Read(at, n);
      for (int64_t i = 0; i < n; ++i) {
        const double divisor =
            std::pow(static_cast<double>(v[i]) / program_.moment_correction, settings_.inverse_exponent) +
            program_.moment_epsilon;
        h[at + i] = divisor == 0 ? Real{0} : static_cast<Real>(static_cast<double>(h[at + i]) / divisor);
      }
    });
  }

  // h <- h a / (1 + a epsilon), where a is the outer product of the inverse square roots of the eigenvalues.
  void ScaleByEigenvalues(Real* h) const {
    const auto epsilon = static_cast<Real>(settings_.epsilon);
    Real* const a = spare();
    std::fill(a, a + context_.block.elements, Real{1});
    for (int k = 0; k < dims(); ++k) {
      if (states_.has_factor(k)) ScaleDim(shape_, k, states_.scale(k), a);
    }
    BestKernels().Of<Real>().scale_damped(a, epsilon, h, context_.block.elements);
  }

  // F_k <- factor_decay F_k + weight C_k with C_k of the gradient itself.
  void UpdateFactors(const BlockData<Real>& g, double weight) const {
    if (!program_.updates_factors) return;
    PhaseScope scope = context_.Scope(StepPhase::kFactorUpdate);
    for (int k = 0; k < dims(); ++k) {
      if (!states_.has_factor(k)) continue;
      const double of_dim = is_kl() ? weight * MeanWeight(k) : weight;
      UpdateFactor(shape_, k, g, static_cast<Real>(program_.factor_decay), static_cast<Real>(of_dim), states_.factor(k),
                   states_.d(k), spare(), &scope);
    }
  }

  // Returns the weight of an element in a mean over all dims but k.
  double MeanWeight(int k) const {
    return static_cast<double>(states_.d(k)) / static_cast<double>(context_.block.elements);
  }

  // The same with C_k of the gradient, whitened along all other dims, and updates the eigenvalues. Returns false if a
  // state would overflow; states of earlier dims may have changed then. r: the gradient in the present eigenbases.
  // Overwrites both.
  bool UpdateKlFactors(const BlockData<Real>& g, const Contracted<Real>& r) const {
    if (!program_.updates_factors) return true;
    if (settings_.kl_eigenvalues == KlEigenvalues::kEma && !AverageEigenvalues(r.data.data)) return false;
    for (int k = 0; k < dims(); ++k) {
      if (states_.has_factor(k) && !UpdateKlFactor(g, r, k)) return false;
    }
    if (settings_.kl_eigenvalues == KlEigenvalues::kEma) StoreEigenvalues();
    return true;
  }

  bool UpdateKlFactor(const BlockData<Real>& g, const Contracted<Real>& r, int k) const {
    Contracted<Real> whitened{{r.half, context_.row()}, r.half};
    if (k > 0 || dims() != 2 || r.half == nullptr) {
      whitened = Contract(g, MatrixForm::kGeneral, Buffer(context_.layout.direction[0]),
                          Buffer(context_.layout.direction[1]), [k](int j) { return j != k; });
    }
    double square = 0;
    {
      const PhaseScope scope = context_.Scope(StepPhase::kElementwise);
      for (int j = 0; j < dims(); ++j) {
        if (j != k && states_.has_factor(j)) ScaleDim(shape_, j, states_.scale(j), whitened.own);
      }
      // If nothing was whitened, the gradient itself has been checked.
      if (whitened.own != nullptr)
        square = BestKernels().Of<Real>().sum_of_squares(whitened.own, context_.block.elements);
    }
    const double weight = program_.factor_weight * MeanWeight(k);
    const StateSlot& slot = context_.block.factor[static_cast<size_t>(k)];
    const double limit = StateLimit(context_.block.computation, slot.dtype);
    if (!(square < ProductLimit(context_.block.computation) && weight * square < limit / 2)) return false;
    PhaseScope scope = context_.Scope(StepPhase::kFactorUpdate);
    UpdateFactor(shape_, k, whitened.data, static_cast<Real>(program_.factor_decay), static_cast<Real>(weight),
                 states_.factor(k), states_.d(k), spare(), &scope);
    return true;
  }

  // Computes the next eigenvalues of all dims from r, the gradient in the eigenbases. Returns false if one overflows.
  bool AverageEigenvalues(const Real* r) const {
    const PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    const double decay = DecayOfEigenvalues();
    Real* const scaled = spare();
    for (int k = 0; k < dims(); ++k) {
      if (!states_.has_factor(k)) continue;
      std::copy_n(r, context_.block.elements, scaled);
      for (int j = 0; j < dims(); ++j) {
        if (j != k && states_.has_factor(j)) ScaleDim(shape_, j, states_.scale(j), scaled);
      }
      double* const next = states_.next_eigenvalues(k);
      SquaresAlong(shape_, k, scaled, next);
      const double mean = MeanWeight(k);
      for (int64_t i = 0; i < states_.d(k); ++i) {
        const auto s = static_cast<double>(states_.scale(k)[i]);
        next[i] = KeptEigenvalue(decay, s) + (1 - decay) * mean * next[i];
        if (!std::isfinite(next[i])) return false;
      }
    }
    return true;
  }

  void StoreEigenvalues() const {
    for (int k = 0; k < dims(); ++k) {
      if (!states_.has_factor(k)) continue;
      const double* const next = states_.next_eigenvalues(k);
      const double mean = MeanOfEigenvalues(k, next);
      if (StartsFromGradient(settings_) && (IsNegligible(mean, context_.block.computation) || !HasTerm(k))) continue;
      StoreScales(k, next, KlCap(settings_, states_.d(k), mean));
    }
  }

  // Returns whether the gradient has changed the average of an eigenvalue of dim k.
  bool HasTerm(int k) const {
    const double decay = DecayOfEigenvalues();
    const double* const next = states_.next_eigenvalues(k);
    for (int64_t i = 0; i < states_.d(k); ++i) {
      if (next[i] != KeptEigenvalue(decay, static_cast<double>(states_.scale(k)[i]))) return true;
    }
    return false;
  }

  double DecayOfEigenvalues() const {
    return EigenvalueDecay(settings_, UpdatesOf(settings_, *states_.gradient_count()));
  }

  double MeanOfEigenvalues(int k, const double* eigenvalues) const {
    return std::accumulate(eigenvalues, eigenvalues + states_.d(k), 0.0) / static_cast<double>(states_.d(k));
  }

  void StoreScales(int k, const double* eigenvalues, double cap) const {
    for (int64_t i = 0; i < states_.d(k); ++i) states_.scale(k)[i] = static_cast<Real>(KlScale(eigenvalues[i], cap));
  }

  // The memory for the basis of a factor matrix.
  BasisMemory<Real> MemoryForBasis(PhaseScope* scope) const {
    char* const own = context_.memory.workspace + context_.layout.RootAt(context_.worker->slot());
    return {{reinterpret_cast<Real*>(own + context_.layout.root),
             reinterpret_cast<int32_t*>(own + context_.layout.root_ints), scope},
            context_.memory.recovery};
  }

  BasisSpec SpecOf(int k) const {
    return {settings_.basis_method,    settings_.basis_sort,    settings_.basis_iterations,
            settings_.basis_tolerance, settings_.basis_epsilon, context_.item.first_root + k};
  }

  // Sets the bases to the eigenvectors of the first factor matrices.
  void InitializeBases() const {
    PhaseScope scope(context_.worker, context_.memory.times, StepPhase::kRoots);
    const BasisMemory<Real> memory = MemoryForBasis(&scope);
    for (int k = 0; k < dims(); ++k) {
      if (!states_.has_factor(k)) continue;
      const int64_t d = states_.d(k);
      BasisSpec spec = SpecOf(k);
      spec.method = BasisMethod::kEigen;
      const BasisOutcome outcome = ComputeBasis<Real>(spec, {d, states_.factor(k), 1, d}, nullptr, memory);
      context_.item.roots[k].outcome = outcome.root;
      if (outcome.root.ok()) std::copy_n(memory.Basis(d), d * d, states_.basis(k));
    }
  }

  // Refreshes the bases and converts the states to them. update: see BasisCorrection. The buffers are free.
  void Refresh(int64_t update, Real* a, Real* b, Real* c, Real* contraction) const {
    PhaseScope scope(context_.worker, context_.memory.times, StepPhase::kRoots);
    const BasisMemory<Real> memory = MemoryForBasis(&scope);
    const StateSlot& filtered = context_.block.filtered_grad;
    const StateSlot& moment = context_.block.second_moment;
    Real* m = filtered.present() ? a : nullptr;
    Real* v = moment.present() ? b : nullptr;
    Real* next = c;
    LoadState(filtered, m);
    LoadState(moment, v);
    const double correction = BasisCorrection(settings_, update);
    const bool is_first =
        settings_.basis_order == BasisOrder::kBefore && context_.item.schedule.task == RootTask::kInitialize;
    for (int k = 0; k < dims(); ++k) {
      if (!states_.has_factor(k)) continue;
      const int64_t d = states_.d(k);
      BasisSpec spec = SpecOf(k);
      if (is_first && settings_.basis_init == BasisInit::kEigen) spec.method = BasisMethod::kEigen;
      const BasisOutcome outcome =
          ComputeBasis<Real>(spec, {d, states_.factor(k), correction, d}, states_.basis(k), memory);
      context_.item.roots[k].outcome = outcome.root;
      if (!outcome.root.ok()) continue;
      if (!outcome.is_kept) {
        Real* const turn = memory.Spare(d);
        blas::Gemm(blas::Product<Real>{true, false, Real{1}, Real{0}}, d, d, d, states_.basis(k), d, memory.Basis(d), d,
                   turn, d);
        const auto rotate = [&](Real** state) {
          if (*state == nullptr) return;
          ContractDim(shape_, k, {*state, context_.row()}, {turn, d, MatrixForm::kGeneral}, next, contraction, &scope);
          std::swap(*state, next);
        };
        rotate(&m);
        TransportMoment(k, turn, spec.method == BasisMethod::kQr ? memory.Order() : nullptr, rotate, &v, &next);
        std::copy_n(memory.Basis(d), d * d, states_.basis(k));
      }
      if (is_kl() && settings_.kl_eigenvalues == KlEigenvalues::kBasis) TakeEigenvalues(k, correction, memory);
    }
    StoreState(filtered, RoundedState::kTurnedFilteredGrad, m);
    StoreState(moment, RoundedState::kTurnedSecondMoment, v);
  }

  // Converts the second moment and the eigenvalues of dim k to the new basis. turn: the old basis, transposed, times
  // the new one; overwritten by the squares of its elements. order: of the old columns; nullptr if none was determined.
  template <typename Rotate>
  void TransportMoment(int k, Real* turn, const int32_t* order, const Rotate& rotate, Real** v, Real** next) const {
    const int64_t d = states_.d(k);
    if (settings_.basis_transport == BasisTransport::kPermute && *v != nullptr && order != nullptr &&
        settings_.basis_sort == BasisSort::kBefore) {
      PermuteDim(shape_, k, *v, order, *next);
      std::swap(*v, *next);
    }
    if (settings_.basis_transport != BasisTransport::kRotate) return;
    for (int64_t i = 0; i < d * d; ++i) turn[i] *= turn[i];
    rotate(v);
    if (!is_kl() || settings_.kl_eigenvalues != KlEigenvalues::kEma) return;
    double* const eigenvalues = states_.next_eigenvalues(k);
    std::fill_n(eigenvalues, d, 0.0);
    for (int64_t i = 0; i < d; ++i) {
      const auto s = static_cast<double>(states_.scale(k)[i]);
      for (int64_t j = 0; j < d; ++j) eigenvalues[j] += static_cast<double>(turn[i * d + j]) / (s * s);
    }
    // The new eigenvalues are averages of the old ones, so a limit holds as before.
    StoreScales(k, eigenvalues, HUGE_VAL);
  }

  // Sets the eigenvalues of dim k to the diagonal of Q^T (F / correction) Q.
  void TakeEigenvalues(int k, double correction, const BasisMemory<Real>& memory) const {
    const int64_t d = states_.d(k);
    Real* const factor = memory.Spare(d);
    for (int64_t i = 0; i < d; ++i) {
      for (int64_t j = 0; j <= i; ++j) factor[i * d + j] = factor[j * d + i] = states_.factor(k)[i * d + j];
    }
    Real* const product = memory.own.Matrix(d);
    blas::Gemm(d, d, d, factor, d, states_.basis(k), d, product, d);
    double* const eigenvalues = states_.next_eigenvalues(k);
    std::fill_n(eigenvalues, d, 0.0);
    for (int64_t i = 0; i < d; ++i) {
      for (int64_t j = 0; j < d; ++j) {
        eigenvalues[j] += static_cast<double>(states_.basis(k)[i * d + j]) * static_cast<double>(product[i * d + j]);
      }
    }
    for (int64_t j = 0; j < d; ++j) eigenvalues[j] /= correction;
    StoreScales(k, eigenvalues, KlCap(settings_, states_.d(k), MeanOfEigenvalues(k, eigenvalues)));
  }

  void LoadState(const StateSlot& slot, Real* to) const {
    if (to != nullptr) Widen(context_.memory.arena + slot.offset, slot.dtype, to, context_.block.elements);
  }
  void StoreState(const StateSlot& slot, RoundedState state, const Real* from) const {
    if (from == nullptr) return;
    BlockRounding::OfState(context_.item, state)
        .Store(from, context_.memory.arena + slot.offset, slot.dtype, 0, context_.block.elements);
  }

  // Applies a direction that was not grafted. fits: whether the states could be updated.
  void Apply(const Real* direction, bool fits) const {
    if (!fits) return SkipUpdate(context_.item);
    direction = Post(direction);
    io_.Apply(direction, {1, 1, io_.Norm(direction)});
  }

  // Returns the direction after soap_post. The memory of the factor matrices is free.
  const Real* Post(const Real* direction) const {
    if (!OrthogonalizesDirection(context_.block, settings_)) return direction;
    PhaseScope scope = context_.Scope(StepPhase::kPreconditioning);
    Real* const d = spare();
    std::copy_n(direction, context_.block.elements, d);
    const int64_t rows = context_.block.PostRows(context_.item.param->desc.fan);
    const OrthogonalizeMemory<Real> memory{Buffer(context_.layout.pairs), &scope};
    // A direction of NaN is rejected before it is applied.
    const bool done = Orthogonalize(settings_, rows, context_.block.elements / rows, d, memory);
    if (!done) d[0] = std::numeric_limits<Real>::quiet_NaN();
    return d;
  }

  const BlockContext<Real> context_;
  const BlockIo<Real> io_;
  const BasisStates<Real> states_;
  const Settings& settings_;
  const Shape& shape_;
  StepProgram program_;
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
