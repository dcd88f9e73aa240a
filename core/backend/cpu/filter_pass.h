// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cpu/chunks.h"
#include "core/backend/cpu/kronecker.h"
#include "core/backend/cpu/step_item.h"
#include "core/plan/block.h"
#include "core/rules/step_program.h"

namespace shampoo {

// Runs the first elementwise pass of a step over a part of a block. Reads the gradient G once. Updates two states in
// the arena: the second moment V of the grafting method, and the average E of the gradients. Computes the filtered
// gradient H and the direction D of the grafting method. Returns |D|^2 of the part, or 0 without grafting.
//
// g: the gradient G of the whole block.
// h: receives H. It is nullptr if H is G itself (the key beta1 is 0) and the caller does not need a copy of G.
// d: receives D. It is nullptr if the caller needs only |D|^2. d and h may be the same memory.
// h and d are buffers of the whole block.
// program: item.program, or a copy of it whose scalars, such as bias corrections, are those of this block. The function
// reads its settings from `program`, except that the rounding of states reads item.program.
template <typename Real>
double FilterGradient(const StepProgram& program, const StepItem& item, const BlockData<Real>& g, const Range& part,
                      char* arena, Real* h, Real* d);

}  // namespace shampoo
