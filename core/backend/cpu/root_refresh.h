// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cpu/step_item.h"
#include "core/roots/ladder.h"

namespace shampoo {

// Computes X_k, the inverse root of dim k, in the block's root dtype from the unrounded factor matrix, and writes it to
// `inverse`. Records the outcome in item.roots[k]. Returns false on failure; `inverse` is then unchanged.
template <typename Real>
bool RefreshRoot(const StepItem& item, int k, const SymmetricView<Real>& factor, char* arena, const RootMemory& memory,
                 const SymmetricTarget<Real>& inverse);

}  // namespace shampoo
