// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/device_layout.h"

#include <algorithm>
#include <utility>

#include "core/backend/cuda/device_tables.h"
#include "core/backend/cuda/root_meter_layout.h"
#include "core/backend/cuda/root_workspace.h"
#include "core/base/round_up.h"
#include "core/rules/root_spec.h"

namespace shampoo::cuda {
namespace {

constexpr int64_t kTableAlignment = 256;

// Sizes in bytes of the buffers for methods that work in eigenbases. Each size suffices for every batch.
struct BasisBytes {
  int64_t tensors = 0, moved = 0, matrices = 0, rotated = 0;
  int64_t vectors = 0;  // in elements, not in bytes

  void Add(const BlockBatch& batch, const DeviceSettings* groups) {
    const int64_t of_tensors = batch.elements * static_cast<int64_t>(SizeOf(batch.computation));
    const bool has_middle_dims = std::any_of(batch.items.begin(), batch.items.end(),
                                             [](const BatchItem& item) { return item.block->order() > 2; });
    tensors = std::max(tensors, of_tensors);
    if (has_middle_dims) moved = std::max(moved, of_tensors);
    matrices = std::max(matrices, batch.matrix_bytes());
    if (ComparesBases(groups[batch.items[0].block->group])) rotated = std::max(rotated, batch.matrix_bytes());
    vectors = std::max(vectors, batch.vector_elements);
  }
};

// Sizes in bytes of the buffers for directions that are orthogonalized. Each size suffices for every batch.
struct OrthogonalBytes {
  int64_t grams = 0, third = 0, wide = 0;
  int64_t vectors = 0;  // in elements, not in bytes

  void Add(const BlockBatch& batch, const DeviceSettings* groups) {
    if (batch.gram_bytes == 0) return;
    grams = std::max(grams, batch.gram_bytes);
    for (const BatchItem& item : batch.items) {
      if (!item.block->has_orthogonal_direction()) continue;
      const DeviceSettings& group = groups[item.block->group];
      const Dtype dtype = IterationDtypeOf(*item.block, group);
      const bool converts = dtype != batch.computation;
      if (dtype == Dtype::kBf16 || (!converts && group.dual_norm_scale)) {
        third = std::max(third, batch.elements * static_cast<int64_t>(SizeOf(batch.computation)));
      }
      if (converts && dtype == Dtype::kF64) {
        wide = std::max(wide, 2 * batch.elements * static_cast<int64_t>(sizeof(double)));
      }
    }
    if (batch.is_orthogonalized) vectors = std::max(vectors, batch.vector_elements);
  }
};

}  // namespace

int64_t NormRowsOf(const Block& block, const DeviceSettings& group) {
  if (!group.controls_norm() || block.matrix_rows == 0 || block.is_routed) return 0;
  return ControlsRows(group) ? block.matrix_rows : 1;
}

bool ComparesBases(const DeviceSettings& group) { return group.basis_tolerance > 0; }

bool HasAsyncRoots(const BlockBatch& batch, const DeviceSettings* groups) {
  if (batch.in_basis) return false;
  return std::any_of(batch.items.begin(), batch.items.end(),
                     [groups](const BatchItem& item) { return groups[item.block->group].root_async > 0; });
}

size_t HandleCount(const std::vector<BlockBatch>& batches) {
  size_t max_shape_groups = 0;
  for (const BlockBatch& batch : batches) max_shape_groups = std::max(max_shape_groups, batch.shape_groups.size());
  return std::min<size_t>(max_shape_groups, 1 + kSideStreams);
}

DeviceLayout LayOutDevice(std::vector<BlockBatch> batches, const DeviceSettings* groups, const PlanCounts& counts,
                          int64_t least_root_bytes) {
  DeviceLayout layout{};
  layout.batches = std::move(batches);
  int64_t items = 0;
  int64_t tiles = 0;
  int64_t max_tiles = 0;
  int64_t max_norm_rows = 0;
  int64_t row_tiles = 0;
  int64_t tensor_bytes = 0;
  int64_t matrix_bytes = 0;
  int64_t async_matrix_bytes = 0;
  int64_t root_bytes = 0;
  int64_t meter_bytes = 0;
  BasisBytes basis;
  OrthogonalBytes orthogonal;
  for (const BlockBatch& batch : layout.batches) {
    items += static_cast<int64_t>(batch.items.size());
    tiles += batch.tiles;
    layout.matrix_tile_count += batch.matrix_tiles;
    max_tiles = std::max(max_tiles, batch.tiles);
    int64_t norm_rows = 0;
    for (const BatchItem& item : batch.items) {
      const DeviceSettings& group = groups[item.block->group];
      const int64_t rows = NormRowsOf(*item.block, group);
      norm_rows += rows;
      row_tiles += ControlsRows(group) ? rows : 0;
    }
    max_norm_rows = std::max(max_norm_rows, norm_rows);
    tensor_bytes = std::max(tensor_bytes, batch.elements * static_cast<int64_t>(SizeOf(batch.computation)));
    matrix_bytes = std::max(matrix_bytes, batch.matrix_bytes());
    if (HasAsyncRoots(batch, groups)) async_matrix_bytes += batch.matrix_bytes();
    if (batch.in_basis) basis.Add(batch, groups);
    orthogonal.Add(batch, groups);
    for (const ShapeGroup& shape_group : batch.shape_groups) {
      const Block& block = *batch.items[shape_group.first].block;
      const auto count = static_cast<int64_t>(shape_group.count);
      layout.root_count += count * block.factor_count();
      for (int k = 0; k < block.factor_count(); ++k) {
        if (!block.has_factor(k)) continue;
        const DeviceSettings& group = groups[block.group];
        if (batch.in_basis) {
          const int64_t bytes = RootWorkspaceBytes(RootMethod::kEigen, block.shape[k], count, block.computation);
          root_bytes = std::max(root_bytes, bytes);
          continue;
        }
        const RootMethod method = MethodOfRoot(group, block.root, 1, block.shape[k]);
        root_bytes = std::max(root_bytes, RootWorkspaceBytes(method, block.shape[k], count, block.root_dtype));
        if (!group.track_root_residuals) continue;
        meter_bytes = std::max(
            meter_bytes,
            EstimatedMeterBytes(block.shape[k], LargestRootChunk(method, block.shape[k], count, block.root_dtype)));
      }
    }
  }

  layout.root_workspace_bytes = std::max(least_root_bytes, root_bytes + meter_bytes);

  layout.blas_bytes = std::clamp(8 * (tensor_bytes + matrix_bytes + orthogonal.grams), kMinBlasBytes, kMaxBlasBytes);

  const auto place = [&layout](int64_t bytes) {
    const int64_t at = layout.bytes;
    layout.bytes += RoundUp(bytes, kTableAlignment);
    return at;
  };
  layout.blocks = place(TableBytes<DeviceBlock>(counts.blocks));
  layout.params = place(TableBytes<DeviceParam>(counts.params));
  layout.buffers = place(TableBytes<Buffers>(counts.params + counts.whole_blocks));
  layout.groups = place(TableBytes<DeviceGroup>(2 * counts.groups));
  layout.initial = place(TableBytes<InitialStates>(counts.groups));
  layout.work = place(TableBytes<BlockWork>(counts.blocks));
  layout.state = place(TableBytes<StepState>(1));
  const bool has_bases = basis.tensors > 0;
  layout.basis.work = place(has_bases ? TableBytes<BasisWork>(counts.blocks) : 0);
  layout.basis.members = place(has_bases ? TableBytes<BasisMember>(layout.root_count) : 0);
  layout.roots = place(TableBytes<RootStatus>(layout.root_count));
  layout.flags = place(TableBytes<void*>(layout.root_count));
  layout.scan_tiles = place(TableBytes<DeviceTile>(counts.scan_tiles));
  layout.scanned = place(TableBytes<double>(counts.scan_tiles * 2));
  layout.slices = place(TableBytes<DeviceSlice>(counts.slices));
  layout.series = place(TableBytes<RunSeries>(counts.series));
  layout.slice_tiles = place(TableBytes<DeviceTile>(counts.slice_tiles));
  layout.roundings = place(counts.rounds ? TableBytes<DeviceRounding>(counts.blocks) : 0);
  layout.hash_tiles = place(TableBytes<DeviceTile>(counts.hash_tiles));
  layout.tile_hashes = place(TableBytes<uint64_t>(counts.hash_tiles));
  layout.hashes = place(counts.verifies ? TableBytes<uint64_t>(counts.params) : 0);
  layout.batch_blocks = place(TableBytes<int32_t>(items));
  layout.tiles = place(TableBytes<DeviceTile>(tiles));
  layout.matrix_tiles = place(TableBytes<DeviceMatrixTile>(layout.matrix_tile_count));
  layout.scanned_factors = place(TableBytes<uint64_t>(layout.matrix_tile_count));
  layout.sums = place(TableBytes<double>(max_tiles * 2));
  layout.products = place(TableBytes<double>(max_tiles));
  layout.fits = place(TableBytes<int32_t>(max_tiles));
  layout.control_sums = place(max_norm_rows > 0 ? TableBytes<ControlSums>(max_tiles) : 0);
  layout.norm_rows = place(TableBytes<NormControlRow>(max_norm_rows));
  layout.row_tiles = place(TableBytes<DeviceTile>(row_tiles));
  layout.first = place(tensor_bytes);
  layout.second = place(tensor_bytes);
  layout.matrices = place(matrix_bytes);
  layout.tasks = place(async_matrix_bytes > 0 || has_bases ? TableBytes<RootTask>(counts.blocks) : 0);
  layout.basis.third = place(basis.tensors);
  layout.basis.fourth = place(basis.tensors);
  layout.basis.moved = place(basis.moved);
  layout.basis.bases = place(basis.matrices);
  layout.basis.rotations = place(basis.matrices);
  layout.basis.products = place(basis.matrices);
  layout.basis.rotated = place(basis.rotated);
  layout.basis.sums = place(basis.vectors * 2 * static_cast<int64_t>(sizeof(double)));
  layout.basis.orders = place(TableBytes<int32_t>(basis.vectors));
  layout.orthogonal.grams = place(orthogonal.grams);
  layout.orthogonal.third = place(orthogonal.third);
  layout.orthogonal.wide = place(orthogonal.wide);
  layout.orthogonal.divisors = place(TableBytes<double>(orthogonal.vectors));
  layout.blas = place(static_cast<int64_t>(HandleCount(layout.batches)) * layout.blas_bytes);
  layout.root_workspace = place(layout.root_workspace_bytes);
  const bool has_async_roots = async_matrix_bytes > 0;
  const auto place_async = [&](int64_t bytes) { return place(has_async_roots ? bytes : 0); };
  const bool on_host = has_async_roots && groups[0].root_device == RootDevice::kHost;
  layout.async.matrices = place_async(async_matrix_bytes);
  layout.async.divisors = place_async(TableBytes<double>(counts.blocks));
  layout.async.flags = place_async(TableBytes<int32_t>(layout.root_count));
  layout.async.flag_addresses = place_async(TableBytes<void*>(layout.root_count));
  layout.async.statuses = place_async(TableBytes<RootStatus>(layout.root_count));
  layout.async.active = place_async(sizeof(int32_t));
  layout.async.blas = place_async(on_host ? 0 : layout.blas_bytes);
  layout.async.root_workspace = place_async(on_host ? 0 : layout.root_workspace_bytes);
  return layout;
}

}  // namespace shampoo::cuda
