// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/backend/cpu/kronecker.h"
#include "core/base/convert.h"
#include "core/base/round_up.h"
#include "core/plan/block.h"
#include "core/plan/memory_layout.h"

namespace shampoo {

// The factor matrix and the inverse root of one dim of a block, in the computation dtype. If the arena stores a matrix
// in another dtype or packed, the matrix is copied to working memory. Otherwise it is used in place in the arena. If
// the dim is shorter than kPackedFrom (core/plan/symmetric.h), each matrix is a d x d array. Otherwise, each matrix is
// one triangle of an array of d rows of d + 1 elements, which both matrices can share.
template <typename Real>
class FactorPair {
 public:
  // Returns the bytes of working memory that dim k needs, rounded up to kStateAlignment.
  static int64_t WorkingBytes(const Block& block, int k) {
    const auto at = static_cast<size_t>(k);
    if (InPlace(block.factor[at]) && InPlace(block.inverse[at])) return 0;
    const int64_t d = block.shape[k];
    const int64_t elements = d < kPackedFrom ? 2 * d * d : SpanElements(SymmetricForm::kLower, d);
    return RoundUp(elements * static_cast<int64_t>(sizeof(Real)), kStateAlignment);
  }

  // Returns whether the matrix in `slot` is used in place.
  static bool InPlace(const StateSlot& slot) {
    return slot.dtype == DtypeOf<Real>() && slot.form != SymmetricForm::kPackedLower &&
           slot.form != SymmetricForm::kPackedUpper;
  }

  FactorPair() = default;  // needed because the step of a block has an array of kMaxDims pairs
  // working: WorkingBytes() of memory.
  FactorPair(const Block& block, int k, char* arena, Real* working)
      : d_(block.shape[k]),
        arena_(arena),
        factor_(&block.factor[static_cast<size_t>(k)]),
        inverse_(&block.inverse[static_cast<size_t>(k)]),
        factor_memory_(InPlace(*factor_) ? InArena(*factor_) : working),
        inverse_memory_(InPlace(*inverse_) ? InArena(*inverse_) : working + (full() ? d_ * d_ : 0)) {}

  int64_t d() const { return d_; }
  bool full() const { return d_ < kPackedFrom; }  // whether each matrix is a d x d array
  int64_t ld() const { return full() ? d_ : d_ + 1; }
  Real* factor() const { return factor_memory_; }  // only the lower triangle is used
  // Has both triangles if full(), otherwise only the upper triangle.
  Real* inverse() const { return inverse_memory_ + (full() ? 0 : 1); }
  MatrixOperand<Real> inverse_operand() const {
    return {inverse(), ld(), full() ? MatrixForm::kSymmetric : MatrixForm::kSymmetricUpper};
  }

  // The Load functions copy a matrix from the arena to working memory. The Store functions copy it back and round it
  // once. If the matrix is used in place, all four functions do nothing.
  void LoadFactor() const { Load(*factor_, SymmetricForm::kLower, factor_memory_); }
  void LoadInverse() const { Load(*inverse_, SymmetricForm::kUpper, inverse_memory_); }
  void StoreFactor() const { Store(*factor_, SymmetricForm::kLower, factor_memory_); }
  void StoreInverse() const { Store(*inverse_, SymmetricForm::kUpper, inverse_memory_); }

 private:
  Real* InArena(const StateSlot& slot) const { return reinterpret_cast<Real*>(arena_ + slot.offset); }

  // Calls move(index of the first element in the arena's matrix, index of this element in working memory, number of
  // elements) for each row, or once for a matrix of form kSquare.
  template <typename Move>
  void ForEachRow(const StateSlot& slot, SymmetricForm working, Move&& move) const {
    if (slot.form == SymmetricForm::kSquare) return move(0, 0, d_ * d_);
    for (int64_t row = 0; row < d_; ++row) {
      const SymmetricRow kept = RowOf(slot.form, d_, row);
      move(kept.first, RowOf(working, d_, row).first, kept.count);
    }
  }
  void Load(const StateSlot& slot, SymmetricForm working, Real* memory) const {
    if (InPlace(slot)) return;
    ForEachRow(slot, working, [&](int64_t from, int64_t to, int64_t count) {
      Widen(ElementAt(arena_ + slot.offset, slot.dtype, from), slot.dtype, memory + to, count);
    });
  }
  void Store(const StateSlot& slot, SymmetricForm working, const Real* memory) const {
    if (InPlace(slot)) return;
    ForEachRow(slot, working, [&](int64_t to, int64_t from, int64_t count) {
      Narrow(memory + from, ElementAt(arena_ + slot.offset, slot.dtype, to), slot.dtype, count);
    });
  }

  int64_t d_;
  char* arena_;
  const StateSlot* factor_;
  const StateSlot* inverse_;
  Real* factor_memory_;
  Real* inverse_memory_;
};

}  // namespace shampoo
