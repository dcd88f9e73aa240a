// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "core/base/status.h"
#include "core/plan/block.h"

namespace shampoo {

// Functions that return the errors of a step that rejects its inputs. The errors are the same on every backend. The
// comment of a function states the error that it returns.

// An element of a parameter, and the value of G at this element. G is the gradient after gradient_scale and coupled
// weight decay. If the gradient is not finite at this element, `value` is the gradient instead. If only the parameter
// is not finite, `value` is the parameter.
struct RejectedAt {
  const Param& param;
  const Block& block;
  int64_t element;  // index in the caller's buffer or, if the block is gathered, in the whole parameter
  double value;
};
// The value is NaN or infinite. param_at_fault: true if the cause is the parameter, false if it is the gradient.
Status RejectNotFinite(const RejectedAt& at, bool param_at_fault);
// The value does not fit the dtype that must hold G.
Status RejectElement(const RejectedAt& at);
// The second moment V, of grafting or of the method, would overflow.
Status RejectMoment(const RejectedAt& at);
// Factor matrix k would overflow. product_fits: whether C_k, the product of G with itself that the step adds to the
// factor matrix (core/rules/growth.h), can be computed.
Status RejectFactor(const RejectedAt& at, int k, bool product_fits);

// Factor matrix k of the state is not finite. largest: the largest magnitude of its elements, NaN or infinity.
Status RejectFactorState(const Param& param, const Block& block, size_t k, double largest);
// The step counter of a group, or the state gradient_count of a block, is out of range.
Status RejectCounter(size_t group, int64_t counter);
Status RejectGradientCount(const Param& param, const Block& block, int64_t count);

}  // namespace shampoo
