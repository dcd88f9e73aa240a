// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cpu/block_context.h"
#include "core/backend/cpu/block_data_operand.h"
#include "core/backend/cpu/kronecker.h"
#include "core/base/kernels/element.h"

namespace shampoo {

// Computes the direction of one block with the method `sign`: the signs of the filtered gradient. The sign of 0 is 0.
// The only state that the direction needs is that of the filtered gradient. Source: Lion (arXiv 2302.06675).
template <typename Real>
class SignDirection {
 public:
  explicit SignDirection(const BlockContext<Real>& context) : context_(context) {}

  bool Update(const BlockData<Real>& /*g*/) { return true; }

  BlockData<Real> Direction(const BlockData<Real>& h) const {
    PhaseScope scope = context_.Scope(StepPhase::kElementwise);
    Real* const p = context_.At(context_.layout.direction[0]);
    scope.ForEach(PartCount(context_.block.elements), [&](int64_t part) {
      BlockDataOperand<Real> filtered(h, context_.block);
      ForEachViewChunk(filtered.run(), PartAt(context_.block.elements, part), [&](int64_t at, int64_t n) {
        const Real* const from = filtered.Read(at, n);
        for (int64_t i = 0; i < n; ++i) p[at + i] = SignOf(from[i]);
      });
    });
    return {p, context_.row()};
  }

 private:
  const BlockContext<Real>& context_;
};

}  // namespace shampoo
