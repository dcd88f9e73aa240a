// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/plan/block.h"
#include "core/step/program.h"

namespace shampoo {

// The caller's buffers of one parameter.
struct Buffers {
  const void* param = nullptr;
  const void* grad = nullptr;
  void* out = nullptr;
  void* copy = nullptr;
};

// The second elementwise pass of a block: decoupled weight decay, momentum, update, and the writes to out and copy.
// p: the direction, dense; scale_down and scale_up: it is read as p * scale_down * scale_up (grafting; 1 and 1: none).
// Two factors, because their product may be beyond the range of Real where neither intermediate value is.
template <typename Real>
void ApplyDirection(const StepProgram& program, const Param& param, const Block& block, const Buffers& buffers,
                    const Real* p, double scale_down, double scale_up, char* arena);

// G <- gradient_scale * gradient + coupled_decay * W, as a dense block.
template <typename Real>
void LoadGradient(const StepProgram& program, const Param& param, const Block& block, const Buffers& buffers, Real* g);

}  // namespace shampoo
