// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/backend.h"

namespace shampoo {

// The second elementwise pass of a block: decoupled weight decay, momentum, update, and the writes to out and copy.
// p: the direction, dense; scale_down and scale_up: it is read as p * scale_down * scale_up (grafting; 1 and 1: none).
// Two factors, because their product may be beyond the range of Real where neither intermediate value is.
template <typename Real>
void ApplyDirection(const StepProgram& program, const Param& param, const Block& block, const Buffers& buffers,
                    const Real* p, double scale_down, double scale_up, char* arena);

// Whether ApplyDirection would write finite numbers only, in every dtype that it writes. size: a bound on |P|, infinite
// or NaN where P is.
template <typename Real>
bool CanApply(const StepProgram& program, const Param& param, const Block& block, const Buffers& buffers, const Real* p,
              double scale_down, double scale_up, double size, const char* arena);

// G <- gradient_scale * gradient + coupled_decay * W, as a dense block.
template <typename Real>
void LoadGradient(const StepProgram& program, const Param& param, const Block& block, const Buffers& buffers, Real* g);

// The outputs of a parameter (block: nullptr), or of one block, that takes no part in a step: out is the parameter
// itself, or updates of zero; copy is the parameter.
void WriteUnchanged(const Param& param, const Block* block, const Buffers& buffers, Output output);

}  // namespace shampoo
