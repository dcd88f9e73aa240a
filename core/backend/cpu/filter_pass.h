// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cpu/chunks.h"
#include "core/backend/cpu/kronecker.h"
#include "core/backend/cpu/step_item.h"
#include "core/plan/block.h"
#include "core/rules/step_program.h"

namespace shampoo {

// Runs the first elementwise pass of a step over a part of a block. Reads the gradient G once. Updates the second
// moment V of the grafting method and the average E of the gradients in the arena. Computes the filtered gradient H and
// the direction D of the grafting method. Returns |D|^2 of the part, or 0 without grafting.
//
// h: receives H; nullptr if H is G itself (key beta1 is 0) and the caller does not need a copy.
// d: receives D; nullptr if only its norm is needed. d and h may be the same memory.
// h and d are buffers of the whole block.
// program: item.program, or a copy with scalars of this block. Only the rounding of states uses item.program.
template <typename Real>
double FilterGradient(const StepProgram& program, const StepItem& item, const BlockData<Real>& g, const Range& part,
                      char* arena, Real* h, Real* d);

}  // namespace shampoo
