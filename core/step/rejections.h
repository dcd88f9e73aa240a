// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "core/base/status.h"
#include "core/plan/block.h"

namespace shampoo {

// The errors of a step that rejects its inputs. They are the same on every backend.

// An element of a parameter, and the value of G at this element. G is the gradient after gradient_scale and coupled
// weight decay.
struct RejectedAt {
  const Param& param;
  const Block& block;
  int64_t element;
  double value;
};
Status RejectNotFinite(const RejectedAt& at, bool param_at_fault);
Status RejectElement(const RejectedAt& at);
Status RejectMoment(const RejectedAt& at);
// product_fits: C_k, which the step adds to the factor matrix (core/rules/growth.h), itself fits, but the factor matrix
// would overflow its dtype.
Status RejectFactor(const RejectedAt& at, int k, bool product_fits);

Status RejectFactorState(const Param& param, const Block& block, size_t k, double largest);
Status RejectCounter(size_t group, int64_t counter);
Status RejectGradientCount(const Param& param, const Block& block, int64_t count);

}  // namespace shampoo
