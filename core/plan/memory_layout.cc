// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/memory_layout.h"

#include "core/base/at.h"
#include "core/base/round_up.h"
#include "core/plan/block_states.h"
#include "core/rules/root_spec.h"

namespace shampoo {

namespace {

// Places the states of a block one after another.
class StatePlacer {
 public:
  void Place(StateSlot* slot, Dtype dtype, int64_t elements) {
    *slot = {end_, dtype, SymmetricForm::kNone};
    end_ += RoundUp(elements * static_cast<int64_t>(SizeOf(dtype)), kStateAlignment);
  }
  void PlaceSymmetric(StateSlot* slot, Dtype dtype, SymmetricForm form, int64_t d) {
    Place(slot, dtype, SpanElements(form, d));
    slot->form = form;
  }
  int64_t end() const { return end_; }

 private:
  int64_t end_ = 0;
};

// Places factor matrices, inverse roots, snapshots and the state Block::diagonal.
void LayOutRoots(const Settings& settings, Block* block, StatePlacer* states) {
  const Dtype factor_dtype = settings.factor_dtype.value_or(block->computation);
  const Dtype inverse_dtype = settings.inverse_dtype.value_or(block->computation);
  for (int k = 0; k < block->factor_count(); ++k) {
    if (!block->has_factor(k)) continue;
    const int64_t d = block->shape[k];
    StateSlot* const factor = &At(block->factor, k);
    StateSlot* const inverse = &At(block->inverse, k);
    if (d < kPackedFrom) {
      states->PlaceSymmetric(factor, factor_dtype, SymmetricForm::kSquare, d);
      states->PlaceSymmetric(inverse, inverse_dtype, SymmetricForm::kSquare, d);
    } else if (factor_dtype == inverse_dtype) {
      states->PlaceSymmetric(factor, factor_dtype, SymmetricForm::kLower, d);
      *inverse = *factor;
      inverse->form = SymmetricForm::kUpper;
    } else {
      states->PlaceSymmetric(factor, factor_dtype, SymmetricForm::kPackedLower, d);
      states->PlaceSymmetric(inverse, inverse_dtype, SymmetricForm::kPackedUpper, d);
    }
  }
  if (settings.root_async > 0 && block->is_preconditioned) {
    // A snapshot is stored unpacked in the computation dtype. Its root is therefore bit-identical to the root that
    // would have been computed from the factor matrix when the snapshot was taken.
    for (int k = 0; k < block->factor_count(); ++k) {
      if (!block->has_factor(k)) continue;
      states->PlaceSymmetric(&At(block->snapshot, k), block->computation, SymmetricForm::kSquare, block->shape[k]);
    }
    states->Place(&block->snapshot_step, Dtype::kI64, 1);
  }
  if (block->is_preconditioned) states->Place(&block->diagonal, Dtype::kI32, block->order());
}

// Places factor matrices, eigenbases, the count of gradients and, with factor_correction=kl, the inverse square roots
// of eigenvalues. Only the lower triangle of a factor matrix is stored, whatever its size.
void LayOutBases(const Settings& settings, Block* block, StatePlacer* states) {
  const Dtype factor_dtype = settings.factor_dtype.value_or(block->computation);
  for (int k = 0; k < block->factor_count(); ++k) {
    if (!block->has_factor(k)) continue;
    const int64_t d = block->shape[k];
    states->PlaceSymmetric(&At(block->factor, k), factor_dtype, SymmetricForm::kPackedLower, d);
    states->Place(&At(block->basis, k), block->computation, d * d);
    if (settings.factor_correction == FactorTerm::kKl) states->Place(&At(block->kl_scale, k), block->computation, d);
  }
  states->Place(&block->gradient_count, Dtype::kI64, 1);
}

// Returns whether the block has a second moment that belongs to its group's method and not to grafting.
bool HasOwnMoment(const Settings& settings, const Block& block) {
  switch (settings.method) {
    case Method::kShampoo:
    case Method::kMuon:
    case Method::kSign:
      return false;
    case Method::kSoap:
      return true;
    case Method::kKlShampoo:
      return !block.is_preconditioned;
    default:
      return settings.has_moment();
  }
}

}  // namespace

int64_t CounterBytes(int64_t groups) { return RoundUp(groups * 8, kStateAlignment); }

void LayOutBlock(const Settings& settings, Dtype param_dtype, Block* block) {
  const Dtype automatic = param_dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
  block->computation = settings.computation_dtype.value_or(automatic);
  block->root_dtype = settings.root_dtype.value_or(block->computation);
  StatePlacer states;
  if (UsesEigenbasis(settings.method)) {
    LayOutBases(settings, block, &states);
  } else {
    const int factors = block->present_factors();
    block->root = settings.RootFor(factors > 0 ? factors : block->order());
    for (int k = 0; k < block->factor_count(); ++k) {
      if (!block->has_factor(k)) continue;
      const RootMethod method = MethodOfRoot(settings, block->root, 1, block->shape[k]);
      block->root_dtype = DtypeOfMethod(method, block->root_dtype);
    }
    LayOutRoots(settings, block, &states);
  }
  if (block->is_orthogonalized && settings.direction_moment != DirectionMoment::kNone) {
    block->moment_of_direction = settings.direction_moment;
    // Means of squares of each row or column are stored in the computation dtype, because they take little memory.
    const bool has_all = settings.direction_moment == DirectionMoment::kElement;
    states.Place(&block->direction_moment,
                 has_all ? settings.second_moment_dtype.value_or(block->computation) : block->computation,
                 block->DirectionMomentShape().Product());
  }
  if (settings.norm_control == NormControl::kHyperball && block->matrix_rows > 0) {
    states.Place(&block->radius, Dtype::kF64, 1);
  }
  if (settings.averaging == Averaging::kScheduleFree) states.Place(&block->lr_sum, Dtype::kF64, 1);
  if (settings.beta1 != 0) {
    states.Place(&block->filtered_grad, settings.filtered_grad_dtype.value_or(block->computation), block->elements);
  }
  if (HasOwnMoment(settings, *block)) {
    states.Place(&block->second_moment, settings.second_moment_dtype.value_or(block->computation), block->elements);
  }
  if (settings.has_moment() && GraftingOf(settings.method) == Grafting::kNone) {
    states.Place(&block->grafting, settings.grafting_dtype.value_or(block->computation), block->elements);
  }
  if (settings.momentum != 0) {
    states.Place(&block->momentum, settings.momentum_dtype.value_or(block->computation), block->elements);
  }
  const Dtype average_dtype = settings.average_dtype.value_or(block->computation);
  if (settings.averaging != Averaging::kNone) states.Place(&block->iterate_offset, average_dtype, block->elements);
  if (settings.weight_ema != 0) states.Place(&block->ema_offset, average_dtype, block->elements);
  block->state_bytes = states.end();
  block->state_offset = 0;
}

void PlaceBlock(int64_t offset, Block* block) {
  block->state_offset += offset;
  ForEachState(block, [offset](const auto& state) {
    if (state.slot->present()) state.slot->offset += offset;
  });
}

}  // namespace shampoo
