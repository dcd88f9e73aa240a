// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cpu/chunks.h"
#include "core/backend/cpu/step_item.h"
#include "core/backend/cpu/strided.h"
#include "core/base/kernels/kernels.h"
#include "core/rules/update.h"

namespace shampoo {

inline bool HasMomentum(const StepItem& item) { return item.block->momentum.present() && item.program->momentum != 0; }

// The second elementwise pass over a part of a block: decoupled weight decay, momentum, update, and the writes to out
// and copy. p: the direction of the block, dense; scale_down and scale_up: it is read as p * scale_down * scale_up
// (grafting; 1 and 1: none). Two factors, because their product may be beyond the range of Real where neither
// intermediate value is.
// With several ranks the update, or the new parameter, goes to the exchange instead of out and copy.
template <typename Real>
void ApplyDirection(const StepItem& item, const Range& part, const Real* p, const DirectionScale& scale, char* arena);

// The step of a block that stands still: its outputs, or the word to the other ranks.
void SkipUpdate(const StepItem& item);

// The word to the other ranks, in the place of a first element of so many bytes.
void MarkSkipped(void* exchange, size_t element_bytes);
bool IsMarkedSkipped(const void* exchange, size_t element_bytes);

// From what was exchanged for a block, on every rank alike: whether it stood still, and else a part of out and copy.
bool OwnerSkippedUpdate(const StepItem& item);
void ApplyReceived(const StepItem& item, const Range& part);
// The same for the elements of the caller's buffers that a view describes, from what was received for them.
void ApplyReceived(const StepItem& item, const void* received, const BlockView& view, const Range& part);

// G <- gradient_scale * gradient + coupled_decay * W, a part of a dense block.
template <typename Real>
void LoadGradient(const StepProgram& program, const Param& param, const Block& block, const Buffers& buffers,
                  const Range& part, Real* g);

// The outputs of a parameter (block: nullptr), or of one block, that takes no part in a step: out is the parameter
// itself, or updates of zero; copy is the parameter.
void WriteUnchanged(const Param& param, const Block* block, const Buffers& buffers, Output output);
// The same for elements [first, first + count) of the buffers.
void WriteUnchangedRun(const Param& param, const Buffers& buffers, Output output, int64_t first, int64_t count);

}  // namespace shampoo
