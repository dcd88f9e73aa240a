// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "core/backend/cpu/basis_states.h"
#include "core/backend/cpu/block_context.h"
#include "core/backend/cpu/kronecker.h"

namespace shampoo {

// `data` is a tensor of the block's shape after its contraction with eigenbases. own: the buffer that holds the
// contracted tensor, or nullptr if no dim was contracted. half: for a matrix that was contracted along both dims, the
// buffer that holds the matrix after its contraction along only the last dim. For a matrix that was contracted along at
// most one dim, half is nullptr. For other tensors, half is not used.
template <typename Real>
struct Contracted {
  BlockData<Real> data;
  Real* own = nullptr;
  Real* half = nullptr;
};

// Contracts tensors of a block with the eigenbases of the block. The results are in the two buffers `direction` of the
// worker's memory.
template <typename Real>
class BasisRotation {
 public:
  BasisRotation(const BlockContext<Real>& context, const BasisStates<Real>& states)
      : context_(context), states_(states) {}

  // Contracts `from` with the basis of each dim k that has a basis and for which takes(k) is true. Starts with the last
  // dim. form: which index of a basis is summed over (kronecker.h). The contractions write alternately to the two
  // buffers.
  template <typename Takes>
  Contracted<Real> Contract(const BlockData<Real>& from, MatrixForm form, const Takes& takes) const {
    PhaseScope scope = context_.Scope(StepPhase::kPreconditioning);
    Real* a = context_.At(context_.layout.direction[0]);
    Real* b = context_.At(context_.layout.direction[1]);
    Contracted<Real> result{from};
    for (int k = states_.dims() - 1; k >= 0; --k) {
      if (!states_.has_factor(k) || !takes(k)) continue;
      const MatrixOperand<Real> basis{states_.basis(k), states_.d(k), form};
      ContractDim(context_.block.shape, k, result.data, basis, a, context_.At(context_.layout.spare), &scope);
      result = {{a, context_.row()}, a, result.own};
      std::swap(a, b);
    }
    return result;
  }

  // Rotates a tensor to the eigenbases.
  Contracted<Real> Rotate(const BlockData<Real>& g) const {
    return Contract(g, MatrixForm::kGeneral, [](int) { return true; });
  }

  // Rotates a dense tensor back from the eigenbases.
  Contracted<Real> RotateBack(const Real* tensor) const {
    return Contract({tensor, context_.row()}, MatrixForm::kTransposed, [](int) { return true; });
  }

 private:
  const BlockContext<Real>& context_;
  const BasisStates<Real>& states_;
};

}  // namespace shampoo
