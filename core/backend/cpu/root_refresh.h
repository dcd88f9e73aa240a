// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cpu/step_item.h"
#include "core/roots/ladder.h"

namespace shampoo {

// Computes X_k from the unrounded factor in the block's root dtype and writes it to `inverse`. item.roots[k] tells how
// it went; on failure `inverse` is untouched.
template <typename Real>
bool RefreshRoot(const StepItem& item, int k, const SymmetricView<Real>& factor, char* arena, const RootMemory& memory,
                 const SymmetricTarget<Real>& inverse);

}  // namespace shampoo
