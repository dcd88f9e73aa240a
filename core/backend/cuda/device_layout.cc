// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/device_layout.h"

#include <algorithm>
#include <utility>

#include "core/backend/cuda/device_tables.h"
#include "core/backend/cuda/root_workspace.h"
#include "core/base/round_up.h"

namespace shampoo::cuda {
namespace {

constexpr int64_t kTableAlignment = 256;

}  // namespace

bool HasAhead(const Wave& wave, const DeviceSettings* groups) {
  return std::any_of(wave.items.begin(), wave.items.end(),
                     [groups](const WaveItem& item) { return groups[item.block->group].root_async > 0; });
}

size_t HandleCount(const std::vector<Wave>& waves) {
  size_t most_classes = 0;
  for (const Wave& wave : waves) most_classes = std::max(most_classes, wave.classes.size());
  return std::min<size_t>(most_classes, 1 + kSideStreams);
}

DeviceLayout LayOutDevice(std::vector<Wave> waves, const DeviceSettings* groups, const PlanCounts& counts,
                          int64_t gathered_bytes, int64_t least_root_bytes) {
  DeviceLayout layout{};
  layout.waves = std::move(waves);
  layout.root_workspace_bytes = least_root_bytes;

  int64_t items = 0;
  int64_t tiles = 0;
  int64_t matrix_tiles = 0;
  int64_t most_tiles = 0;
  int64_t tensor_bytes = 0;
  int64_t matrix_bytes = 0;
  int64_t ahead_bytes = 0;
  for (const Wave& wave : layout.waves) {
    items += static_cast<int64_t>(wave.items.size());
    tiles += wave.tiles;
    matrix_tiles += wave.matrix_tiles;
    most_tiles = std::max(most_tiles, wave.tiles);
    tensor_bytes = std::max(tensor_bytes, wave.elements * static_cast<int64_t>(SizeOf(wave.computation)));
    matrix_bytes = std::max(matrix_bytes, wave.matrix_bytes());
    if (HasAhead(wave, groups)) ahead_bytes += wave.matrix_bytes();
    for (const ShapeClass& of_shape : wave.classes) {
      const Block& block = *wave.items[of_shape.first].block;
      const auto count = static_cast<int64_t>(of_shape.count);
      layout.root_count += count * block.factor_count();
      for (int k = 0; k < block.factor_count(); ++k) {
        layout.root_workspace_bytes =
            std::max(layout.root_workspace_bytes,
                     RootWorkspaceBytes(groups[block.group].root_method, block.shape[k], count, block.root_dtype));
      }
    }
  }

  layout.blas_bytes = std::clamp(8 * (tensor_bytes + matrix_bytes), kLeastBlasBytes, kMostBlasBytes);

  const auto place = [&layout](int64_t bytes) {
    const int64_t at = layout.bytes;
    layout.bytes += RoundUp(bytes, kTableAlignment);
    return at;
  };
  layout.blocks = place(TableBytes<DeviceBlock>(counts.blocks));
  layout.params = place(TableBytes<DeviceParam>(counts.params));
  layout.buffers = place(TableBytes<Buffers>(counts.params));
  layout.groups = place(TableBytes<DeviceGroup>(counts.groups));
  layout.initial = place(TableBytes<InitialInverse>(counts.groups));
  layout.work = place(TableBytes<BlockWork>(counts.blocks));
  layout.state = place(TableBytes<StepState>(1));
  layout.roots = place(TableBytes<RootStatus>(layout.root_count));
  layout.flags = place(TableBytes<void*>(layout.root_count));
  layout.scan_tiles = place(TableBytes<DeviceTile>(counts.scan_tiles));
  layout.scanned = place(TableBytes<double>(counts.scan_tiles * 2));
  layout.wave_blocks = place(TableBytes<int32_t>(items));
  layout.tiles = place(TableBytes<DeviceTile>(tiles));
  layout.matrix_tiles = place(TableBytes<DeviceMatrixTile>(matrix_tiles));
  layout.sums = place(TableBytes<double>(most_tiles * 2));
  layout.fits = place(TableBytes<int32_t>(most_tiles));
  layout.first = place(tensor_bytes);
  layout.second = place(tensor_bytes);
  layout.matrices = place(matrix_bytes);
  layout.blas = place(static_cast<int64_t>(HandleCount(layout.waves)) * layout.blas_bytes);
  layout.root_workspace = place(layout.root_workspace_bytes);
  const bool ahead = ahead_bytes > 0;
  const auto place_ahead = [&](int64_t bytes) { return place(ahead ? bytes : 0); };
  layout.ahead.matrices = place_ahead(ahead_bytes);
  layout.ahead.tasks = place_ahead(TableBytes<RootTask>(counts.blocks));
  layout.ahead.divisors = place_ahead(TableBytes<double>(counts.blocks));
  layout.ahead.flags = place_ahead(TableBytes<int32_t>(layout.root_count));
  layout.ahead.flag_addresses = place_ahead(TableBytes<void*>(layout.root_count));
  layout.ahead.statuses = place_ahead(TableBytes<RootStatus>(layout.root_count));
  layout.ahead.active = place_ahead(sizeof(int32_t));
  layout.ahead.blas = place_ahead(layout.blas_bytes);
  layout.ahead.root_workspace = place_ahead(layout.root_workspace_bytes);
  layout.gathered = place(gathered_bytes);
  return layout;
}

}  // namespace shampoo::cuda
