// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "core/base/status.h"
#include "core/plan/block.h"

namespace shampoo {

// What a step says of what it refuses, and of what it leaves where it is; the same on every backend.

// The dtype that |G| itself must fit: that of the filtered gradient, an average of gradients, where it is narrow.
Dtype ElementDtype(const Block& block);
// A margin for the rounding of sums in the computation dtype.
double ProductLimit(Dtype computation);

// An element of a parameter, and G there.
struct RefusedAt {
  const Param& param;
  const Block& block;
  int64_t element;
  double value;
};
Status RefuseNotFinite(const RefusedAt& at, bool param_at_fault);
Status RefuseElement(const RefusedAt& at);
Status RefuseMoment(const RefusedAt& at);
// product_fits: it is not C_k alone that would overflow, but the factor matrix in its dtype.
Status RefuseFactor(const RefusedAt& at, int k, bool product_fits);

Status RefuseFactorState(const Param& param, const Block& block, size_t k, double largest);
Status RefuseCounter(size_t group, int64_t counter);

// Of a block whose direction cannot be used.
std::string StandingText(const Param& param, const Block& block);

}  // namespace shampoo
