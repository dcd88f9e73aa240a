// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cpu/chunks.h"
#include "core/backend/cpu/kronecker.h"
#include "core/plan/block.h"
#include "core/rules/step_program.h"

namespace shampoo {

// The first elementwise pass over a part of a block: reads the gradient once, updates the grafting method's second
// moment V and the filtered gradient E in the arena, and gives H and D.
//
// h: where H goes; nullptr if H is G itself (filter_decay 0) and not wanted elsewhere. d: where D goes, nullptr: only
// its norm is wanted; it may be h. Both are of the whole block. Returns |D|^2 of the part, or 0 without grafting.
template <typename Real>
double FilterGradient(const StepProgram& program, const Block& block, const BlockData<Real>& g, const Range& part,
                      char* arena, Real* h, Real* d);

}  // namespace shampoo
