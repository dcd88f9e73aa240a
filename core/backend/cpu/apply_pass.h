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

// Runs the second elementwise pass over a part of a block; filter_pass.h has the first pass. Applies decoupled weight
// decay, momentum and the update, and writes `out` and `copy` (Buffers). With several ranks, writes the update or
// the new parameter to item.exchange instead.
// p: a dense array for the whole block. The direction is p * scale.down * scale.up. The scale has two factors because
// scale.down * scale.up may be outside the range of Real even if p * scale.down and the direction are inside it.
// iterate: see AverageTracker (average_pass.h).
template <typename Real>
void ApplyDirection(const StepItem& item, const Range& part, const Real* p, const DirectionScale& scale,
                    const Real* iterate, char* arena);

// Updates the average of weight_ema for a part of a block whose parameter does not change: multiplies the state, which
// is the average minus the parameter, by the decay of the average.
void AgeAverage(const StepItem& item, const Range& part, char* arena);
// Exports the average of a part of a block. Writes W + f S to `out` or, with several ranks, f S to item.exchange. W is
// the parameter, S is the state in the slot average_offset() of the block, and f is the result of ExportFactor()
// (core/rules/averages.h). During an export, item.program->lr is not a learning rate: WeightExport has set it to -f.
void ExportAverage(const StepItem& item, const Range& part, char* arena);

// Skips the update of a block, and sets *item.update_skipped. Calls WriteUnchanged() or, with several ranks, marks the
// update as skipped in item.exchange.
void SkipUpdate(const StepItem& item);

// Marks the update of a block as skipped. exchange: the data of the block in the exchange; the mark replaces its first
// element. element_bytes: the size of an element.
void MarkSkipped(void* exchange, size_t element_bytes);
// Returns whether MarkSkipped has marked the update.
bool IsMarkedSkipped(const void* exchange, size_t element_bytes);

// Returns whether the data in item.exchange says that the owner of the block skipped its update.
bool OwnerSkippedUpdate(const StepItem& item);
// Writes a part of `out` and `copy` from the data in item.exchange. All ranks get bit-identical values.
void ApplyReceived(const StepItem& item, const Range& part);
// Writes a part of the elements of `out` and `copy` that `view` describes. The elements of `view` are consecutive in
// the block; block_first is the index of the first one in the block. received: the data for all elements of `view`.
void ApplyReceived(const StepItem& item, const void* received, const BlockView& view, int64_t block_first,
                   const Range& part);

// Computes g <- gradient_scale * gradient + coupled_decay * W for a part of a block. g is dense.
template <typename Real>
void LoadGradient(const StepProgram& program, const Param& param, const Block& block, const Buffers& buffers,
                  const Range& part, Real* g);

// Writes the outputs of one block that a step does not update, or of a whole parameter if `block` is nullptr. `copy`
// gets the old parameter. `out` gets the old parameter or, with Output::kUpdates, an update of zero.
void WriteUnchanged(const Param& param, const Block* block, const Buffers& buffers, Output output);
// Writes the same values as WriteUnchanged(), but only to elements [first, first + count) of the buffers.
void WriteUnchangedRun(const Param& param, const Buffers& buffers, Output output, int64_t first, int64_t count);

}  // namespace shampoo
