// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/device_element.h"
#include "core/backend/cuda/plugin/device_kernels.h"

namespace shampoo::cuda {
namespace {

struct InitializeFactorsBody {
  Tables tables;
  char* arena;
  int64_t first;
  const InitialInverse* initial_by_group;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceBlock& block = tables.blocks[first + cta.index()];
    if (block.owned == 0 || block.factors == 0) return;
    // The state of a block begins with its factor matrices, inverse roots and snapshots; the flags follow.
    auto* const words = reinterpret_cast<uint64_t*>(arena + block.factor[0].offset);
    cta.ForEach((block.diagonal.offset - block.factor[0].offset) / 8, [&](int64_t i) { words[i] = 0; });
    const bool identity = initial_by_group[block.group] == InitialInverse::kIdentity;
    for (int k = 0; k < block.factors; ++k) {
      const StateSlot& slot = block.inverse[k];
      const int64_t d = block.shape[k];
      cta.ForEach(identity ? d : 0,
                  [&](int64_t i) { WriteAs(arena + slot.offset, slot.dtype, KeptAt(slot.form, d, i, i), 1.0F); });
    }
    auto* const flags = reinterpret_cast<int32_t*>(arena + block.diagonal.offset);
    cta.ForEach(block.factors, [&](int64_t k) { flags[k] = 1; });
  }
};

}  // namespace

cudaError_t InitializeFactors(cudaStream_t stream, const Tables& tables, char* arena, int64_t first, int64_t count,
                              const InitialInverse* initial_by_group) {
  return Launch(stream, count, InitializeFactorsBody{tables, arena, first, initial_by_group});
}

}  // namespace shampoo::cuda
