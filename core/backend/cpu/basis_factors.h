// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/backend/cpu/basis_eigenvalues.h"
#include "core/backend/cpu/basis_rotation.h"
#include "core/backend/cpu/basis_states.h"
#include "core/backend/cpu/block_context.h"
#include "core/backend/cpu/kronecker.h"
#include "core/base/kernels/kernels.h"
#include "core/roots/matrix.h"
#include "core/rules/basis.h"
#include "core/rules/growth.h"

namespace shampoo {

// Updates the factor matrices of a block whose method works in eigenbases. All functions except Load() and Store() work
// on the copies in the worker's memory (BasisStates::factor()).
template <typename Real>
class BasisFactors {
 public:
  BasisFactors(const BlockContext<Real>& context, const BasisScalars& scalars, const BasisStates<Real>& states,
               const BasisRotation<Real>& rotation, const BasisEigenvalues<Real>& eigenvalues)
      : context_(context),
        scalars_(scalars),
        states_(states),
        rotation_(rotation),
        eigenvalues_(eigenvalues),
        settings_(*context.program.settings),
        shape_(context.block.shape) {}

  // Copies all factor matrices from the arena.
  void Load() const {
    const PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    for (int k = 0; k < dims(); ++k) {
      if (states_.has_factor(k)) states_.LoadFactor(k);
    }
  }
  // Copies all factor matrices back to the arena.
  void Store() const {
    const PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    for (int k = 0; k < dims(); ++k) {
      if (states_.has_factor(k)) states_.StoreFactor(k);
    }
  }

  // Returns whether the mean diagonal element of every factor matrix is negligible (IsNegligible()). In that case,
  // either no gradient has changed the matrices noticeably, or the matrices have decayed.
  bool AreNegligible() const {
    for (int k = 0; k < dims(); ++k) {
      if (!states_.has_factor(k)) continue;
      const int64_t d = states_.d(k);
      const double trace = TraceOf(SymmetricView<Real>{d, states_.factor(k)});
      if (!IsNegligible(trace / static_cast<double>(d), context_.block.computation)) return false;
    }
    return true;
  }

  // For each dim k, computes F_k <- factor_decay F_k + w C_k. C_k is the product of the gradient with itself,
  // contracted over all dims except k (see UpdateFactor()). w is `weight` or, with factor_correction=kl, `weight` times
  // MeanWeight(k).
  void Update(const BlockData<Real>& g, double weight) const {
    if (!scalars_.updates_factors) return;
    PhaseScope scope = context_.Scope(StepPhase::kFactorUpdate);
    for (int k = 0; k < dims(); ++k) {
      if (!states_.has_factor(k)) continue;
      const double of_dim = states_.is_kl() ? weight * states_.MeanWeight(k) : weight;
      UpdateFactor(shape_, k, g, static_cast<Real>(scalars_.factor_decay), static_cast<Real>(of_dim), states_.factor(k),
                   states_.d(k), spare(), &scope);
    }
  }

  // Updates each F_k as Update() does, but computes C_k from the gradient whitened along all dims except k. w is
  // BasisScalars::factor_weight times MeanWeight(k). With kl_eigenvalues=ema, also updates the eigenvalues. If a state
  // would overflow, returns false; factor matrices of earlier dims may then have changed. r: the gradient in the
  // present eigenbases; the buffers of r are overwritten.
  bool UpdateWhitened(const BlockData<Real>& g, const Contracted<Real>& r) const {
    if (!scalars_.updates_factors) return true;
    const bool averages = settings_.kl_eigenvalues == KlEigenvalues::kEma;
    const double decay = scalars_.eigenvalue_decay;
    if (averages && !eigenvalues_.Average(decay, r.data.data)) return false;
    for (int k = 0; k < dims(); ++k) {
      if (states_.has_factor(k) && !UpdateDimWhitened(g, r, k)) return false;
    }
    if (averages) eigenvalues_.Store(decay);
    return true;
  }

 private:
  int dims() const { return states_.dims(); }
  Real* spare() const { return context_.At(context_.layout.spare); }

  bool UpdateDimWhitened(const BlockData<Real>& g, const Contracted<Real>& r, int k) const {
    Contracted<Real> whitened{{r.half, context_.row()}, r.half};
    if (k > 0 || dims() != 2 || r.half == nullptr) {
      whitened = rotation_.Contract(g, MatrixForm::kGeneral, [k](int j) { return j != k; });
    }
    double square = 0;
    // If no other dim has a factor matrix, C_k comes from the gradient itself, which the step has already checked.
    if (whitened.own != nullptr) {
      const PhaseScope scope = context_.Scope(StepPhase::kElementwise);
      eigenvalues_.Whiten(k, whitened.own);
      square = BestKernels().Of<Real>().sum_of_squares(whitened.own, context_.block.elements);
    }
    const double weight = scalars_.factor_weight * states_.MeanWeight(k);
    const Dtype factor = context_.block.factor[static_cast<size_t>(k)].dtype;
    if (!TermFits(square, weight, context_.block.computation, factor)) return false;
    PhaseScope scope = context_.Scope(StepPhase::kFactorUpdate);
    UpdateFactor(shape_, k, whitened.data, static_cast<Real>(scalars_.factor_decay), static_cast<Real>(weight),
                 states_.factor(k), states_.d(k), spare(), &scope);
    return true;
  }

  const BlockContext<Real>& context_;
  const BasisScalars& scalars_;
  const BasisStates<Real>& states_;
  const BasisRotation<Real>& rotation_;
  const BasisEigenvalues<Real>& eigenvalues_;
  const Settings& settings_;
  const Shape& shape_;
};

}  // namespace shampoo
