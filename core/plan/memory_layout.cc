// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/memory_layout.h"

#include "core/base/at.h"
#include "core/base/round_up.h"
#include "core/plan/block_states.h"
#include "core/rules/root_spec.h"

namespace shampoo {

int64_t CounterBytes(int64_t groups) { return RoundUp(groups * 8, kStateAlignment); }

void LayOutBlock(const Settings& settings, Dtype param_dtype, Block* block) {
  const Dtype automatic = param_dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
  block->computation = settings.computation_dtype.value_or(automatic);
  block->root = settings.RootFor(block->order());
  block->root_dtype = settings.root_dtype.value_or(block->computation);
  for (int k = 0; k < block->factor_count(); ++k) {
    const RootMethod method = MethodOfRoot(settings, block->root, 1, block->shape[k]);
    block->root_dtype = DtypeOfMethod(method, block->root_dtype);
  }

  int64_t end = 0;
  auto place = [&end](StateSlot* slot, Dtype dtype, int64_t elements) {
    *slot = {end, dtype, SymmetricForm::kNone};
    end += RoundUp(elements * static_cast<int64_t>(SizeOf(dtype)), kStateAlignment);
  };
  const Dtype factor_dtype = settings.factor_dtype.value_or(block->computation);
  const Dtype inverse_dtype = settings.inverse_dtype.value_or(block->computation);
  for (int k = 0; k < block->factor_count(); ++k) {
    const int64_t d = block->shape[k];
    StateSlot* const factor = &At(block->factor, k);
    StateSlot* const inverse = &At(block->inverse, k);
    const auto place_symmetric = [&](StateSlot* slot, Dtype dtype, SymmetricForm form) {
      place(slot, dtype, SpanElements(form, d));
      slot->form = form;
    };
    if (d < kPackedFrom) {
      place_symmetric(factor, factor_dtype, SymmetricForm::kSquare);
      place_symmetric(inverse, inverse_dtype, SymmetricForm::kSquare);
    } else if (factor_dtype == inverse_dtype) {
      place_symmetric(factor, factor_dtype, SymmetricForm::kLower);
      *inverse = *factor;
      inverse->form = SymmetricForm::kUpper;
    } else {
      place_symmetric(factor, factor_dtype, SymmetricForm::kPackedLower);
      place_symmetric(inverse, inverse_dtype, SymmetricForm::kPackedUpper);
    }
  }
  if (settings.root_async > 0 && block->is_preconditioned) {
    // A snapshot is stored unpacked in the computation dtype. Its root is therefore bit-identical to the root that
    // would have been computed from the factor matrix when the snapshot was taken.
    for (int k = 0; k < block->factor_count(); ++k) {
      StateSlot* const snapshot = &At(block->snapshot, k);
      place(snapshot, block->computation, SpanElements(SymmetricForm::kSquare, block->shape[k]));
      snapshot->form = SymmetricForm::kSquare;
    }
    place(&block->snapshot_step, Dtype::kI64, 1);
  }
  if (block->is_preconditioned) place(&block->diagonal, Dtype::kI32, block->order());
  if (settings.beta1 != 0) {
    place(&block->filtered_grad, settings.filtered_grad_dtype.value_or(block->computation), block->elements);
  }
  if (settings.has_moment() && IsElementwise(settings.method)) {
    place(&block->second_moment, settings.second_moment_dtype.value_or(block->computation), block->elements);
  } else if (settings.has_moment()) {
    place(&block->grafting, settings.grafting_dtype.value_or(block->computation), block->elements);
  }
  if (settings.momentum != 0) {
    place(&block->momentum, settings.momentum_dtype.value_or(block->computation), block->elements);
  }
  block->state_bytes = end;
  block->state_offset = 0;
}

void PlaceBlock(int64_t offset, Block* block) {
  block->state_offset += offset;
  ForEachState(block, [offset](const auto& state) {
    if (state.slot->present()) state.slot->offset += offset;
  });
}

}  // namespace shampoo
