// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cpu/step_item.h"
#include "core/roots/ladder.h"

namespace shampoo {

// Computes the inverse root X_k of dim k from `factor`, the factor matrix F_k, and writes X_k to `inverse`. Both
// matrices have the computation dtype of the block (Real). The solvers work in the root dtype of the block. Records the
// outcome in item.roots[k]. On failure, returns false and leaves `inverse` unchanged. arena: contains the state
// Block::diagonal, which is set to 0 for dim k if F_k is not diagonal.
template <typename Real>
bool RefreshRoot(const StepItem& item, int k, const SymmetricView<Real>& factor, char* arena, const RootMemory& memory,
                 const SymmetricTarget<Real>& inverse);

}  // namespace shampoo
