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

// Runs the second elementwise pass over a part of a block; filter_pass.h has the first pass. Applies weight decay
// (except coupled weight decay, which LoadGradient() applies), momentum and the update. Writes `out` and `copy` of
// *item.buffers. If item.exchange is not nullptr, writes the update or the new parameter to item.exchange instead.
// p: a dense array for the whole block. The direction is p * scale.down * scale.up. The scale has two factors because
// scale.down * scale.up may be outside the range of Real even if p * scale.down and the direction are inside it.
// iterate: see AverageTracker (average_pass.h).
template <typename Real>
void ApplyDirection(const StepItem& item, const Range& part, const Real* p, const DirectionScale& scale,
                    const Real* iterate, char* arena);

// Updates the average of the key weight_ema for a part of a block whose parameter does not change. Multiplies the state
// (the average minus the parameter) by the value of weight_ema.
void AgeAverage(const StepItem& item, const Range& part, char* arena);
// Exports the average of a part of a block. Writes W + f S to `out` or, if item.exchange is not nullptr, f S to
// item.exchange. W is the parameter, S is the state in the slot average_offset() of the block, and f is the result of
// ExportFactor() (core/rules/averages.h). During an export, item.program->lr is not a learning rate: WeightExport has
// set it to -f.
void ExportAverage(const StepItem& item, const Range& part, char* arena);

// Skips the update of a block: sets *item.update_skipped to 1, and calls WriteUnchanged(). If item.exchange is not
// nullptr, calls MarkSkipped() for item.exchange instead of WriteUnchanged().
void SkipUpdate(const StepItem& item);

// Marks the update of a block as skipped. exchange: the data of the block that ranks exchange. The mark replaces the
// first element of this data. element_bytes: the size of an element.
void MarkSkipped(void* exchange, size_t element_bytes);
// Returns whether the data begins with the mark that MarkSkipped() writes.
bool IsMarkedSkipped(const void* exchange, size_t element_bytes);

// Returns whether the data in item.exchange says that the owner of the block skipped its update.
bool OwnerSkippedUpdate(const StepItem& item);
// Computes a part of the outputs of a block from the data in item.exchange, and writes them to `out` and `copy`. All
// ranks get bit-identical values.
void ApplyReceived(const StepItem& item, const Range& part);
// Does the same for a part of `view`, whose elements are consecutive elements of the block. received: the data for all
// elements of `view`. block_first: the index within the block of the first element of `view`. part: a range of elements
// of `view`, counted from the first one.
void ApplyReceived(const StepItem& item, const void* received, const BlockView& view, int64_t block_first,
                   const Range& part);

// Computes g <- gradient_scale * gradient + coupled_decay * W for a part of a block.
// g: a dense array for the whole block.
template <typename Real>
void LoadGradient(const StepProgram& program, const Param& param, const Block& block, const Buffers& buffers,
                  const Range& part, Real* g);

// Writes the outputs of one block that a step does not update, or of a whole parameter if `block` is nullptr. `copy`
// gets the old parameter. `out` gets the old parameter or, with Output::kUpdates, an update of zero.
void WriteUnchanged(const Param& param, const Block* block, const Buffers& buffers, Output output);
// Writes the same values as WriteUnchanged(), but only to elements [first, first + count) of the buffers.
void WriteUnchangedRun(const Param& param, const Buffers& buffers, Output output, int64_t first, int64_t count);

}  // namespace shampoo
