// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cpu/block_step.h"

namespace shampoo {

// Computes X_k from the unrounded factor (d x d, lower triangle) in the block's root dtype and writes it, in full, to
// `inverse` in the computation dtype. On failure `inverse` is untouched and the incident is reported.
template <typename Real>
bool RefreshRoot(const StepItem& item, int k, const Real* factor, char* arena, const SlotLayout& layout,
                 char* workspace, Real* inverse, SlotReport* report);

}  // namespace shampoo
