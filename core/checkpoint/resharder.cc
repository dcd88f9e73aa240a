// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/resharder.h"

#include <algorithm>
#include <cstring>

namespace shampoo {
namespace {

constexpr int64_t kWindowElements = int64_t{1} << 19;

}  // namespace

Status Resharder::Load(const CheckpointIndex& index, const Matching::ReshardedParam& resharded) {
  const PlanData& plan = resharded.optimizer->plan();
  const int64_t elements = index.params[static_cast<size_t>(resharded.stored_param)].elements();
  for (const std::string_view name : kElementwiseStates) {
    std::vector<Target> targets;
    for (const StateEntry* state : resharded.states) {
      if (state->state() != name) continue;
      const Block& block = plan.block(state->block);
      targets.push_back({BlockPlace::Of(plan.params[static_cast<size_t>(resharded.param)].desc, block), state});
    }
    for (int64_t first = 0; first < elements && !targets.empty(); first += kWindowElements) {
      SHAMPOO_RETURN_IF_ERROR(LoadWindow(resharded, targets, first, std::min(kWindowElements, elements - first)));
    }
  }
  return {};
}

Status Resharder::LoadWindow(const Matching::ReshardedParam& resharded, const std::vector<Target>& targets,
                             int64_t first, int64_t count) {
  const size_t size = SizeOf(targets[0].state->dtype);
  const auto bytes = [size](int64_t n) { return static_cast<size_t>(n) * size; };
  const auto is_empty = [&](const Target& target) {
    const DenseRange range = Within(target.place, first, count);
    return range.begin == range.end;
  };
  if (std::all_of(targets.begin(), targets.end(), is_empty)) return {};
  window_.resize(bytes(count));
  SHAMPOO_RETURN_IF_ERROR(
      reader_->ReadWindow(resharded.sources, targets[0].state->state(), first, count, window_.data()));
  for (const Target& target : targets) {
    if (is_empty(target)) continue;
    SHAMPOO_RETURN_IF_ERROR(resharded.optimizer->Change(*target.state, &copy_, [&](char* to) {
      ForEachRunOf(target.place, Within(target.place, first, count), [&](int64_t dense, int64_t at, int64_t n) {
        std::memcpy(to + bytes(dense), window_.data() + bytes(at - first), bytes(n));
      });
      return Status();
    }));
  }
  return {};
}

}  // namespace shampoo
