// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/recut.h"

#include <algorithm>
#include <cstring>

namespace shampoo {
namespace {

constexpr int64_t kWindow = int64_t{1} << 20;  // elements

}  // namespace

Status Recutter::Load(const CheckpointIndex& index, const Matching::Recut& recut, char* arena) {
  const PlanData& plan = recut.optimizer->plan();
  const int64_t elements = index.params[static_cast<size_t>(recut.stored_param)].elements();
  for (const char* state : {"filtered_grad", "grafting", "momentum"}) {
    std::vector<Target> targets;
    for (const StateEntry& entry : recut.optimizer->entries()) {
      if (entry.state() != state || !std::binary_search(recut.blocks.begin(), recut.blocks.end(), entry.block))
        continue;
      const Block& block = plan.blocks[static_cast<size_t>(entry.block)];
      targets.push_back({BlockPlace::Of(plan.params[static_cast<size_t>(recut.param)].desc, block), &entry});
    }
    for (int64_t first = 0; first < elements && !targets.empty(); first += kWindow) {
      SHAMPOO_RETURN_IF_ERROR(LoadWindow(recut, targets, first, std::min(kWindow, elements - first), arena));
    }
  }
  return {};
}

Status Recutter::LoadWindow(const Matching::Recut& recut, const std::vector<Target>& targets, int64_t first,
                            int64_t count, char* arena) {
  const size_t size = SizeOf(targets[0].state->dtype);
  const auto bytes = [size](int64_t n) { return static_cast<size_t>(n) * size; };
  const auto is_empty = [&](const Target& target) {
    const DenseRange range = Within(target.place, first, count);
    return range.begin == range.end;
  };
  if (std::all_of(targets.begin(), targets.end(), is_empty)) return {};
  window_.resize(bytes(count));
  for (const StoredBlock* source : recut.sources) {
    const DenseRange range = Within(source->place, first, count);
    if (range.begin == range.end) continue;
    const StoredEntry* const entry = source->Find(targets[0].state->state());
    read_.resize(std::max(read_.size(), bytes(range.end - range.begin)));
    SHAMPOO_RETURN_IF_ERROR(reader_->ReadRange(*source, *entry, range.begin, range.end - range.begin, read_.data()));
    ForEachRunOf(source->place, range, [&](int64_t dense, int64_t at, int64_t n) {
      std::memcpy(window_.data() + bytes(at - first), read_.data() + bytes(dense - range.begin), bytes(n));
    });
  }
  for (const Target& target : targets) {
    char* const to = arena + target.state->arena_offset;
    ForEachRunOf(target.place, Within(target.place, first, count), [&](int64_t dense, int64_t at, int64_t n) {
      std::memcpy(to + bytes(dense), window_.data() + bytes(at - first), bytes(n));
    });
  }
  return {};
}

}  // namespace shampoo
