// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Conversion of the plan to the tables that kernels read.
#include <algorithm>
#include <cmath>
#include <span>

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/engine.h"
#include "core/rules/basis.h"
#include "core/rules/muon.h"

namespace shampoo::cuda {
namespace {

bool IsDense(const Block& block) {
  int64_t expected = 1;
  for (int k = block.order() - 1; k >= 0; --k) {
    if (block.shape[k] != 1 && block.stride[static_cast<size_t>(k)] != expected) return false;
    expected *= block.shape[k];
  }
  return true;
}

DeviceBlock TableOf(const PlanView& plan, int64_t index) {
  const Block& block = plan.blocks[index];
  DeviceBlock made{};
  made.elements = block.elements;
  std::copy(block.shape.dims.begin(), block.shape.dims.end(), made.shape);
  std::copy(block.stride.begin(), block.stride.end(), made.stride);
  made.offset = block.offset;
  made.order = block.order();
  made.factors = block.factor_count();
  made.param = block.param;
  made.group = block.group;
  made.scalars = block.is_routed ? plan.group_count + block.group : block.group;
  made.owned = plan.owned[index] != 0 ? 1 : 0;
  made.dense = IsDense(block) ? 1 : 0;
  made.computation = block.computation;
  made.phase = block.phase;
  made.matrix_rows = block.matrix_rows;
  made.matrix_columns = block.matrix_columns;
  made.rows_are_contiguous = plan.params[block.param].fan == Fan::kOutIn ? 1 : 0;
  for (int k = 0; k < block.factor_count(); ++k) {
    made.factor[k] = block.factor[static_cast<size_t>(k)];
    made.inverse[k] = block.inverse[static_cast<size_t>(k)];
    made.snapshot[k] = block.snapshot[static_cast<size_t>(k)];
    made.basis[k] = block.basis[static_cast<size_t>(k)];
    made.kl_scale[k] = block.kl_scale[static_cast<size_t>(k)];
  }
  made.snapshot_step = block.snapshot_step;
  made.diagonal = block.diagonal;
  made.filtered_grad = block.filtered_grad;
  made.v = block.moment();
  made.gradient_count = block.gradient_count;
  made.second_moment = block.second_moment;
  made.grafting = block.grafting;
  made.radius = block.radius;
  made.iterate_offset = block.iterate_offset;
  made.lr_sum = block.lr_sum;
  made.ema_offset = block.ema_offset;
  made.momentum = block.momentum;
  made.tiles = TileCount(block.elements);
  const NewtonSchulz& newton_schulz = plan.newton_schulz[block.group];
  const DeviceSettings& settings = plan.groups[block.group];
  made.orthogonalized = block.has_orthogonal_direction() ? 1 : 0;
  made.iteration_dtype = IterationDtypeOf(block, settings);
  made.starts_in_second = newton_schulz.steps % 2 == 0 ? 1 : 0;
  made.ns_norm = newton_schulz.norm;
  made.ns_divisor = newton_schulz.coefficients.divisor;
  made.moment_of_direction = block.moment_of_direction;
  made.means_are_of_stored_rows =
      MeansAreOfOutputs(block.moment_of_direction, block.matrix_rows, block.matrix_columns) ==
              (plan.params[block.param].fan == Fan::kOutIn)
          ? 1
          : 0;
  made.direction_moment = block.direction_moment;
  // If the direction rule of a block is kPrecondition (block_tile.h), methods `muon`, `sign`, `soap` and `kl_shampoo`
  // leave P in the second buffer.
  const bool always = block.gradient_count.present() || IsSteepestDescent(plan.groups[block.group].method);
  // With other methods, each multiplication by an inverse root reads P from one buffer and writes the product to the
  // other buffer.
  made.direction_in_second = always ? 1 : block.present_factors() % 2;
  made.exchange_at = -1;
  made.exchange_dtype = block.exchange_dtype;
  made.bucket = block.bucket;
  made.buffers = block.param;
  made.gradient_at = made.param_at = -1;
  if (plan.gather != nullptr) {
    made.buffers = static_cast<int32_t>(plan.param_count + index);
    made.gradient_at = plan.gather->gradient_at[index];
    made.param_at = plan.gather->param_at[index];
    made.exchange_at = made.gradient_at;  // the update replaces the gradient
  } else if (plan.replica_world > 1) {
    made.exchange_at = block.bucket % plan.exchange_sets * plan.replica_set_bytes +
                       block.owner * plan.bucket_segment_bytes[block.bucket] + block.exchange_offset;
  }
  return made;
}

void AppendMatrixTiles(int32_t block, int k, int64_t d, std::vector<DeviceMatrixTile>* tiles) {
  const int64_t rows = (d + kMatrixTile - 1) / kMatrixTile;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column <= row; ++column) {
      tiles->push_back({block, static_cast<int16_t>(k), static_cast<uint16_t>(row), static_cast<uint16_t>(column)});
    }
  }
}

// The tables to upload, in host memory.
struct HostTables {
  std::vector<DeviceBlock> blocks;
  std::vector<DeviceParam> params;
  std::vector<InitialStates> initial;
  std::vector<DeviceTile> scan_tiles;
  std::vector<DeviceTile> hash_tiles;
  std::vector<int32_t> batch_blocks;
  std::vector<DeviceTile> tiles;
  std::vector<DeviceTile> row_tiles;
  std::vector<DeviceMatrixTile> matrix_tiles;
  std::vector<const int32_t*> async_flags;
};

}  // namespace

Status Engine::FillTables(cudaStream_t stream) {
  HostTables host;
  int64_t plan_root = 0;
  for (int64_t b = 0; b < plan_.block_count; ++b) {
    host.blocks.push_back(TableOf(plan_, b));
    DeviceBlock& block = host.blocks.back();
    block.plan_root = plan_root;
    plan_root += block.factors;
    block.first_scan_tile = static_cast<int64_t>(host.scan_tiles.size());
    if (plan_.gather != nullptr && plan_.owned[b] == 0) continue;  // only the owner scans the block
    for (int64_t tile = 0; tile < block.tiles; ++tile) {
      host.scan_tiles.push_back({static_cast<int32_t>(b), static_cast<int32_t>(tile)});
    }
  }
  for (int32_t p = 0; p < plan_.param_count; ++p) {
    const ParamOfPlan& param = plan_.params[p];
    const int64_t hash_tiles = plan_.verify_replicas > 0 ? TileCount(param.elements) : 0;
    host.params.push_back({param.elements, param.group, param.param_dtype, param.grad_dtype, param.out_dtype,
                           param.copy_dtype, static_cast<int64_t>(host.hash_tiles.size()), hash_tiles});
    for (int64_t tile = 0; tile < hash_tiles; ++tile) host.hash_tiles.push_back({p, static_cast<int32_t>(tile)});
  }
  for (const DeviceSettings& group : planned_) {
    host.initial.push_back(
        {group.initial_inverse, group.kl_init != 0 ? 1 / std::sqrt(EigenvalueBeforeGradients(group)) : 0});
  }

  char* const base = workspace_.data();
  int64_t async_matrix_bytes = 0;
  for (const BlockBatch& batch : layout_.batches) {
    BatchTables tables{};
    tables.blocks = reinterpret_cast<const int32_t*>(base + layout_.batch_blocks) + host.batch_blocks.size();
    tables.block_count = static_cast<int64_t>(batch.items.size());
    tables.tiles = reinterpret_cast<const DeviceTile*>(base + layout_.tiles) + host.tiles.size();
    tables.tile_count = batch.tiles;
    tables.matrix_tiles =
        reinterpret_cast<const DeviceMatrixTile*>(base + layout_.matrix_tiles) + host.matrix_tiles.size();
    tables.matrix_tile_count = batch.matrix_tiles;
    tables.first = base + layout_.first;
    tables.second = base + layout_.second;
    tables.matrices = base + layout_.matrices;
    if (HasAsyncRoots(batch, plan_.groups)) {
      tables.async_matrices = base + layout_.async.matrices + async_matrix_bytes;
      async_matrix_bytes += batch.matrix_bytes();
    }
    tables.sums = reinterpret_cast<double*>(base + layout_.sums);
    tables.products = reinterpret_cast<double*>(base + layout_.products);
    tables.fits = reinterpret_cast<int32_t*>(base + layout_.fits);
    tables.control_sums = reinterpret_cast<ControlSums*>(base + layout_.control_sums);
    tables.row_tiles = reinterpret_cast<const DeviceTile*>(base + layout_.row_tiles) + host.row_tiles.size();
    const size_t first_row_tile = host.row_tiles.size();
    int64_t norm_rows = 0;
    int64_t first_tile = 0;
    for (const ShapeGroup& shape_group : batch.shape_groups) {
      const auto count = static_cast<int64_t>(shape_group.count);
      for (int64_t i = 0; i < count; ++i) {
        const BatchItem& item = batch.items[shape_group.first + static_cast<size_t>(i)];
        const auto b = static_cast<int32_t>(item.block - plan_.blocks);
        DeviceBlock& block = host.blocks[static_cast<size_t>(b)];
        block.at = item.at;
        block.first_tile = first_tile;
        first_tile += block.tiles;
        host.batch_blocks.push_back(b);
        for (int64_t tile = 0; tile < block.tiles; ++tile) host.tiles.push_back({b, static_cast<int32_t>(tile)});
        const DeviceSettings& group = planned_[static_cast<size_t>(block.group)];
        if (block.iterate_offset.present()) tables.has_iterates = 1;
        if (block.average_offset().present()) tables.has_averages = 1;
        block.norm_rows = NormRowsOf(*item.block, group);
        block.norm_row_at = norm_rows;
        norm_rows += block.norm_rows;
        for (int64_t row = 0; ControlsRows(group) && row < block.norm_rows; ++row)
          host.row_tiles.push_back({b, static_cast<int32_t>(row)});
        block.first_matrix_tile = static_cast<int64_t>(host.matrix_tiles.size());
        if (item.block->is_orthogonalized) block.vector_at[0] = item.vector_at[0];
        for (int k = 0; k < block.factors; ++k) {
          block.root_at[k] = shape_group.first_root + k * count + i;
          if (!item.block->has_factor(k)) continue;
          block.matrix_at[k] = item.matrix_at[static_cast<size_t>(k)];
          block.vector_at[k] = item.vector_at[static_cast<size_t>(k)];
          const int64_t bytes = block.shape[k] * block.shape[k] * static_cast<int64_t>(SizeOf(batch.computation));
          if (host_root_transfer_ && item.block->snapshot_step.present()) {
            const int64_t at = block.matrix_at[k] * static_cast<int64_t>(SizeOf(batch.computation));
            host_root_transfer_->SetPlace(
                b, k,
                {static_cast<char*>(tables.async_matrices) + at, tables_.async_flags + block.root_at[k],
                 tables_.async_roots + block.root_at[k], bytes});
          }
          AppendMatrixTiles(b, k, block.shape[k], &host.matrix_tiles);
        }
      }
    }
    tables.norm_rows = norm_rows > 0 ? reinterpret_cast<NormControlRow*>(base + layout_.norm_rows) : nullptr;
    tables.row_tile_count = static_cast<int64_t>(host.row_tiles.size() - first_row_tile);
    batch_tables_.push_back(tables);
  }

  for (int64_t i = 0; has_async_roots() && i < layout_.root_count; ++i)
    host.async_flags.push_back(tables_.async_flags + i);

  const auto upload = [&](int64_t offset, const auto& table) -> Status {
    if (table.empty()) return {};
    SHAMPOO_CUDA_TRY(
        cudaMemcpyAsync(base + offset, table.data(), table.size() * sizeof table[0], cudaMemcpyHostToDevice, stream));
    return {};
  };
  const auto clear = [&](int64_t offset, int64_t bytes) -> Status {
    if (bytes == 0) return {};
    SHAMPOO_CUDA_TRY(cudaMemsetAsync(base + offset, 0, static_cast<size_t>(bytes), stream));
    return {};
  };
  const auto all = [&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(upload(layout_.blocks, host.blocks));
    SHAMPOO_RETURN_IF_ERROR(upload(layout_.params, host.params));
    if (plan_.roundings != nullptr) {
      SHAMPOO_RETURN_IF_ERROR(upload(layout_.roundings, std::span(plan_.roundings, plan_.block_count)));
    }
    SHAMPOO_RETURN_IF_ERROR(upload(layout_.initial, host.initial));
    SHAMPOO_RETURN_IF_ERROR(upload(layout_.scan_tiles, host.scan_tiles));
    SHAMPOO_RETURN_IF_ERROR(upload(layout_.hash_tiles, host.hash_tiles));
    SHAMPOO_RETURN_IF_ERROR(upload(layout_.batch_blocks, host.batch_blocks));
    if (plan_.gather != nullptr) {
      const GatherView& gather = *plan_.gather;
      SHAMPOO_RETURN_IF_ERROR(upload(layout_.slices, std::span(gather.slices, gather.slice_count)));
      SHAMPOO_RETURN_IF_ERROR(upload(layout_.series, std::span(gather.series, gather.series_count)));
      SHAMPOO_RETURN_IF_ERROR(upload(layout_.slice_tiles, std::span(gather.tiles, gather.tile_count)));
      SHAMPOO_RETURN_IF_ERROR(clear(layout_.buffers, TableBytes<Buffers>(plan_.param_count + plan_.block_count)));
    }
    SHAMPOO_RETURN_IF_ERROR(upload(layout_.tiles, host.tiles));
    SHAMPOO_RETURN_IF_ERROR(upload(layout_.row_tiles, host.row_tiles));
    SHAMPOO_RETURN_IF_ERROR(upload(layout_.matrix_tiles, host.matrix_tiles));
    if (has_async_roots()) {
      // Clear the memory of async roots, from `matrices` to `statuses`, so that no kernel reads uninitialized memory
      // even if the first step is rejected.
      SHAMPOO_RETURN_IF_ERROR(clear(layout_.async.matrices, layout_.async.active - layout_.async.matrices));
      // Set the number to which RootBatch::active points to a nonzero value, because async roots are computed even if a
      // later step is rejected.
      SHAMPOO_CUDA_TRY(cudaMemsetAsync(base + layout_.async.active, 1, sizeof(int32_t), stream));
      SHAMPOO_RETURN_IF_ERROR(upload(layout_.async.flag_addresses, host.async_flags));
    }
    SHAMPOO_RETURN_IF_ERROR(clear(layout_.work, TableBytes<BlockWork>(plan_.block_count)));
    SHAMPOO_RETURN_IF_ERROR(clear(layout_.groups, TableBytes<DeviceGroup>(2 * plan_.group_count)));
    SHAMPOO_RETURN_IF_ERROR(clear(layout_.state, TableBytes<StepState>(1)));
    SHAMPOO_RETURN_IF_ERROR(clear(layout_.roots, TableBytes<RootStatus>(layout_.root_count)));
    // PreloadLibraries() passes the buffers from `first` to the one before `blas` to cuBLAS and cuSOLVER, so fill them
    // with a known value. An element whose bytes are all 0xff is a NaN in every floating-point dtype. The solver of
    // inverse roots replaces a matrix that contains NaN by the identity.
    SHAMPOO_CUDA_TRY(
        cudaMemsetAsync(base + layout_.first, 0xff, static_cast<size_t>(layout_.blas - layout_.first), stream));
    // Clear `tasks` only after the buffers have been filled with 0xff, because the filled range includes `tasks`.
    if (counts_blocks()) SHAMPOO_RETURN_IF_ERROR(clear(layout_.tasks, TableBytes<RootTask>(plan_.block_count)));
    return {};
  };
  Status status = all();
  // `host` must exist until its tables have been copied.
  Status waited = StatusOf(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return status.ok() ? std::move(waited) : std::move(status);
}

}  // namespace shampoo::cuda
