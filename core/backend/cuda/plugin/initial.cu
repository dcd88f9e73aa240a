// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/device_element.h"
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/rules/muon.h"

namespace shampoo::cuda {
namespace {

struct InitializeFactorsBody {
  Tables tables;
  char* arena;
  int64_t first;
  const InitialStates* initial_by_group;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceBlock& block = tables.blocks[first + cta.index()];
    if (block.owned == 0) return;
    const auto clear = [&](const StateSlot& number) {
      if (number.present()) cta.Once([&] { *reinterpret_cast<uint64_t*>(arena + number.offset) = 0; });
    };
    clear(block.gradient_count);
    clear(block.radius);
    // Does not clear the state lr_sum. If a load finds no saved block of the same shape, it runs this kernel for the
    // block, but takes lr_sum from the saved blocks of the parameter.
    if (block.direction_moment.present() && block.moment_of_direction != DirectionMoment::kElement) {
      const bool is_of_rows = MeansAreOfOutputs(block.moment_of_direction, block.matrix_rows, block.matrix_columns);
      cta.ForEach(is_of_rows ? block.matrix_rows : block.matrix_columns, [&](int64_t i) {
        WriteAs(arena + block.direction_moment.offset, block.direction_moment.dtype, i, 0.0);
      });
    }
    if (block.factors == 0) return;
    if (block.is_rotated()) return InitializeBases(cta, block, initial_by_group[block.group]);
    if (!block.diagonal.present()) return;
    // The state of a block begins with its factor matrices, inverse roots and snapshots. The state `diagonal`, which
    // has a flag for each dim, follows.
    int64_t begin = block.diagonal.offset;
    for (int k = 0; k < block.factors; ++k) {
      if (block.factor[k].present() && block.factor[k].offset < begin) begin = block.factor[k].offset;
    }
    auto* const words = reinterpret_cast<uint64_t*>(arena + begin);
    cta.ForEach((block.diagonal.offset - begin) / 8, [&](int64_t i) { words[i] = 0; });
    const bool identity = initial_by_group[block.group].inverse == InitialInverse::kIdentity;
    for (int k = 0; k < block.factors; ++k) {
      const StateSlot& slot = block.inverse[k];
      const int64_t d = block.shape[k];
      cta.ForEach(identity && slot.present() ? d : 0,
                  [&](int64_t i) { WriteAs(arena + slot.offset, slot.dtype, KeptAt(slot.form, d, i, i), 1.0F); });
    }
    auto* const flags = reinterpret_cast<int32_t*>(arena + block.diagonal.offset);
    cta.ForEach(block.factors, [&](int64_t k) { flags[k] = 1; });
  }

  // Initializes a block whose method works in eigenbases. Also clears E and V, which are stored in the coordinates of
  // the eigenbases.
  SHAMPOO_DEVICE void InitializeBases(const Cta& cta, const DeviceBlock& block, const InitialStates& initial) const {
    const auto fill = [&](const StateSlot& slot, int64_t elements, double value) {
      cta.ForEach(slot.present() ? elements : 0,
                  [&](int64_t i) { WriteAs(arena + slot.offset, slot.dtype, i, value); });
    };
    fill(block.filtered_grad, block.elements, 0);
    fill(block.second_moment, block.elements, 0);
    for (int k = 0; k < block.factors; ++k) {
      if (!block.factor[k].present()) continue;
      const int64_t d = block.shape[k];
      const StateSlot& basis = block.basis[k];
      fill(block.factor[k], SpanElements(block.factor[k].form, d), 0);
      fill(basis, d * d, 0);
      cta.ForEach(d, [&](int64_t i) { WriteAs(arena + basis.offset, basis.dtype, i * d + i, 1.0F); });
      fill(block.kl_scale[k], d, initial.kl_scale);
    }
  }
};

}  // namespace

cudaError_t InitializeFactors(cudaStream_t stream, const Tables& tables, char* arena, int64_t first, int64_t count,
                              const InitialStates* initial_by_group) {
  return Launch(stream, count, InitializeFactorsBody{tables, arena, first, initial_by_group});
}

}  // namespace shampoo::cuda
