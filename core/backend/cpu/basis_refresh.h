// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/backend/cpu/basis_eigenvalues.h"
#include "core/backend/cpu/basis_states.h"
#include "core/backend/cpu/block_context.h"
#include "core/backend/cpu/block_rounding.h"
#include "core/backend/cpu/kronecker.h"
#include "core/backend/cpu/tensor_dims.h"
#include "core/blas/blas.h"
#include "core/roots/eigenbasis.h"
#include "core/rules/basis.h"

namespace shampoo {

// Computes the eigenbases of a block, and converts the states that are in eigenbases from the old bases to the new
// ones.
template <typename Real>
class BasisRefresh {
 public:
  BasisRefresh(const BlockContext<Real>& context, const BasisStates<Real>& states,
               const BasisEigenvalues<Real>& eigenvalues)
      : context_(context),
        states_(states),
        eigenvalues_(eigenvalues),
        settings_(*context.program.settings),
        shape_(context.block.shape) {}

  // Sets the bases to the eigenvectors of the factor matrices. With basis_order=after, the step calls this function
  // after the first gradient has updated the factor matrices.
  void Initialize() const {
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

  // Refreshes the bases and converts the states to the new bases. correction: BasisScalars::basis_correction. a, b, c
  // and contraction are working memory; each has room for as many elements as the block has.
  void Run(double correction, Real* a, Real* b, Real* c, Real* contraction) const {
    PhaseScope scope(context_.worker, context_.memory.times, StepPhase::kRoots);
    const BasisMemory<Real> memory = MemoryForBasis(&scope);
    const StateSlot& filtered = context_.block.filtered_grad;
    const StateSlot& moment = context_.block.second_moment;
    Real* m = filtered.present() ? a : nullptr;
    Real* v = moment.present() ? b : nullptr;
    Real* next = c;
    Load(filtered, m);
    Load(moment, v);
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
        Real* const rotation = memory.Spare(d);
        blas::Gemm(blas::Product<Real>{true, false, Real{1}, Real{0}}, d, d, d, states_.basis(k), d, memory.Basis(d), d,
                   rotation, d);
        const auto rotate = [&](Real** state) {
          if (*state == nullptr) return;
          ContractDim(shape_, k, {*state, context_.row()}, {rotation, d, MatrixForm::kGeneral}, next, contraction,
                      &scope);
          std::swap(*state, next);
        };
        rotate(&m);
        TransportMoment(k, rotation, spec.method == BasisMethod::kQr ? memory.Order() : nullptr, rotate, &v, &next);
        std::copy_n(memory.Basis(d), d * d, states_.basis(k));
      }
      if (states_.is_kl() && settings_.kl_eigenvalues == KlEigenvalues::kBasis) {
        eigenvalues_.TakeDiagonal(k, correction, memory);
      }
    }
    Store(filtered, RoundedState::kRotatedFilteredGrad, m);
    Store(moment, RoundedState::kRotatedSecondMoment, v);
  }

 private:
  int dims() const { return states_.dims(); }

  // Returns the memory in which the basis of a factor matrix is computed.
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

  // Converts the second moment from the old basis Q_old of dim k to the new basis Q_new, as the key basis_transport
  // selects. With basis_transport=rotate and kl_eigenvalues=ema, also converts the eigenvalues of dim k. rotation:
  // Q_old^T Q_new; this function may overwrite it. order: BasisMemory::Order(), or nullptr if no orthogonal iteration
  // ran. rotate(v): contracts *v along dim k with `rotation`. *v: the second moment; nullptr if the block has none.
  // *next: working memory; it may be exchanged with *v.
  template <typename Rotate>
  void TransportMoment(int k, Real* rotation, const int32_t* order, const Rotate& rotate, Real** v, Real** next) const {
    const int64_t d = states_.d(k);
    if (settings_.basis_transport == BasisTransport::kPermute && *v != nullptr && order != nullptr &&
        settings_.basis_sort == BasisSort::kBefore) {
      PermuteDim(shape_, k, *v, order, *next);
      std::swap(*v, *next);
    }
    if (settings_.basis_transport != BasisTransport::kRotate) return;
    for (int64_t i = 0; i < d * d; ++i) rotation[i] *= rotation[i];
    rotate(v);
    if (states_.is_kl() && settings_.kl_eigenvalues == KlEigenvalues::kEma) eigenvalues_.Transport(k, rotation);
  }

  void Load(const StateSlot& slot, Real* to) const {
    if (to != nullptr) Widen(context_.memory.arena + slot.offset, slot.dtype, to, context_.block.elements);
  }
  void Store(const StateSlot& slot, RoundedState state, const Real* from) const {
    if (from == nullptr) return;
    BlockRounding::OfState(context_.item, state)
        .Store(from, context_.memory.arena + slot.offset, slot.dtype, 0, context_.block.elements);
  }

  const BlockContext<Real>& context_;
  const BasisStates<Real>& states_;
  const BasisEigenvalues<Real>& eigenvalues_;
  const Settings& settings_;
  const Shape& shape_;
};

}  // namespace shampoo
