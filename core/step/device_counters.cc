// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/device_counters.h"

#include <algorithm>

namespace shampoo {

DeviceCounters::DeviceCounters(const PlanData& plan) : steps(plan.groups.size()), block_counters(plan.blocks.size()) {
  has_block_counters_ = std::any_of(plan.blocks.begin(), plan.blocks.end(), [&](const Block& block) {
    return plan.Owns(block) && (block.snapshot_step.present() || block.gradient_count.present());
  });
  count_gradients_ = std::any_of(plan.blocks.begin(), plan.blocks.end(),
                                 [](const Block& block) { return block.gradient_count.present(); });
}

Status DeviceCounters::Fetch(const cuda::DeviceEngine& engine, const char* arena, void* stream) {
  const auto bytes = static_cast<int64_t>(steps.size() * sizeof steps[0]);
  SHAMPOO_RETURN_IF_ERROR(engine.Download(steps.data(), arena, bytes, stream));
  if (has_block_counters_) {
    SHAMPOO_RETURN_IF_ERROR(engine.ReadBlockCounters(arena, stream));
    TakeBlockCounters(engine);
  }
  arena_ = arena;
  has_unseen_write_ = false;
  return {};
}

void DeviceCounters::TakeBlockCounters(const cuda::DeviceEngine& engine) {
  std::copy_n(engine.block_counters(), block_counters.size(), block_counters.begin());
}

void DeviceCounters::SetInitial(const char* arena) {
  std::fill(steps.begin(), steps.end(), 0);
  std::fill(block_counters.begin(), block_counters.end(), 0);
  arena_ = arena;
}

}  // namespace shampoo
