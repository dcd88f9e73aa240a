// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/backend/cpu/block_context.h"
#include "core/base/convert.h"
#include "core/rules/basis.h"

namespace shampoo {

// Gives access to states of a block with method soap or kl_shampoo. LoadFactor() copies a factor matrix to the worker's
// memory, in the computation dtype, and StoreFactor() copies it back. The other states are used directly in the arena.
template <typename Real>
class BasisStates {
 public:
  explicit BasisStates(const BlockContext<Real>& context) : context_(context) {}

  // Returns the number of elements that factor() needs for all dims of a block.
  static int64_t FactorElements(const Block& block) {
    int64_t elements = 0;
    for (int k = 0; k < block.factor_count(); ++k) {
      if (block.has_factor(k)) elements += block.shape[k] * block.shape[k];
    }
    return elements;
  }
  // Returns the number of elements that next_eigenvalues() needs for all dims of a block.
  static int64_t VectorElements(const Block& block) {
    int64_t elements = 0;
    for (int k = 0; k < block.factor_count(); ++k) elements += block.has_factor(k) ? block.shape[k] : 0;
    return elements;
  }

  bool is_kl() const { return context_.program.settings->factor_correction == FactorTerm::kKl; }
  int dims() const { return context_.block.factor_count(); }
  bool has_factor(int k) const { return context_.block.has_factor(k); }
  int64_t d(int k) const { return context_.block.shape[k]; }
  // The copy of the factor matrix F_k in the worker's memory: d x d, with d = d(k). Only the lower triangle is used.
  Real* factor(int k) const {
    Real* at = context_.At(context_.layout.pairs);
    for (int i = 0; i < k; ++i) at += has_factor(i) ? d(i) * d(i) : 0;
    return at;
  }
  // The eigenbasis Q_k of F_k: d x d. The columns are the basis vectors.
  Real* basis(int k) const { return InArena<Real>(context_.block.basis[static_cast<size_t>(k)]); }
  // The state kl_scale of dim k (factor_correction=kl, which method kl_shampoo always uses): the inverse square root of
  // the eigenvalue for each column of basis(k).
  Real* scale(int k) const { return InArena<Real>(context_.block.kl_scale[static_cast<size_t>(k)]); }
  // Memory of the worker for d(k) new eigenvalues of dim k, from which the step then computes scale(k).
  double* next_eigenvalues(int k) const {
    auto* at = reinterpret_cast<double*>(context_.At(context_.layout.vectors));
    for (int i = 0; i < k; ++i) at += has_factor(i) ? d(i) : 0;
    return at;
  }
  // Returns the weight of an element in a mean over all dims except k.
  double MeanWeight(int k) const { return shampoo::MeanWeight(d(k), context_.block.elements); }
  int64_t* gradient_count() const { return InArena<int64_t>(context_.block.gradient_count); }

  void LoadFactor(int k) const {
    const StateSlot& slot = context_.block.factor[static_cast<size_t>(k)];
    for (int64_t row = 0; row < d(k); ++row) {
      const SymmetricRow kept = RowOf(slot.form, d(k), row);
      Widen(At(slot, kept.first), slot.dtype, factor(k) + row * d(k), kept.count);
    }
  }
  void StoreFactor(int k) const {
    const StateSlot& slot = context_.block.factor[static_cast<size_t>(k)];
    for (int64_t row = 0; row < d(k); ++row) {
      const SymmetricRow kept = RowOf(slot.form, d(k), row);
      Narrow(factor(k) + row * d(k), At(slot, kept.first), slot.dtype, kept.count);
    }
  }

 private:
  template <typename Value>
  Value* InArena(const StateSlot& slot) const {
    return reinterpret_cast<Value*>(context_.memory.arena + slot.offset);
  }
  void* At(const StateSlot& slot, int64_t element) const {
    return ElementAt(context_.memory.arena + slot.offset, slot.dtype, element);
  }

  const BlockContext<Real>& context_;
};

}  // namespace shampoo
