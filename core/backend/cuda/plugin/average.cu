// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Kernels for the averages that the keys `averaging` and `weight_ema` add (core/rules/averages.h). If a step updates a
// block, ApplyDirections() in direction.cu writes the average of the block.
#include "core/backend/cuda/plugin/block_tile.h"
#include "core/backend/cuda/plugin/device_kernels.h"

namespace shampoo::cuda {
namespace {

SHAMPOO_DEVICE inline bool MovesIterate(const Tables& tables, int32_t b) {
  const BlockWork& work = tables.work[b];
  return IsStepped(tables, b) && tables.blocks[b].iterate_offset.present() && work.keeps_parameter == 0 &&
         IsFinite(work.scale.size);
}

// Writes the difference to the buffer that OtherBuffer() returns: the old parameter minus the unrounded new parameter.
// For each tile, also computes the sum of the squares of the difference.
template <typename Real>
struct AveragedDifferenceBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BlockTile<Real> part(tables, batch, cta.index());
    if (!MovesIterate(tables, part.tile.block)) return;
    const AveragedMove<Real> move(part.work.averaging, part.group, part.work.averaged_scale);
    const Real* const p = part.Direction(batch);
    Real* const difference = part.In(OtherBuffer(batch, part.block, part.work));
    const void* const param = tables.buffers[part.block.buffers].param;
    const Dtype param_dtype = tables.params[part.block.param].param_dtype;
    const StateSlot& slot = part.block.iterate_offset;
    const char* const offset = tables.state_out + slot.offset;
    const double square = cta.Sum(part.size, [&](int64_t i) {
      const Real w = ReadAs<Real>(param, param_dtype, PlaceOf(part.block, part.begin + i));
      difference[i] = move.Of(p[i], w, ReadAs<Real>(offset, slot.dtype, part.begin + i)).difference;
      return static_cast<double>(difference[i]) * static_cast<double>(difference[i]);
    });
    cta.Once([&] { batch.sums[2 * cta.index()] = square; });
  }
};

// Computes the norm of the difference, and records that the difference replaces the direction of the block.
struct AveragedDirectionBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int32_t b = batch.blocks[cta.index()];
    if (!MovesIterate(tables, b)) return;
    const DeviceBlock& block = tables.blocks[b];
    const double norm = sqrt(cta.Sum(block.tiles, [&](int64_t i) { return batch.sums[2 * (block.first_tile + i)]; }));
    cta.Once([&] {
      tables.work[b].scale = {1, 1, norm};
      tables.work[b].is_difference = 1;
    });
  }
};

// Returns the weight of this step's iterate in the average of a block (averaging=schedule_free). group: the first row
// of the block's group in Tables::groups. is_routed: whether the block is a routed block. Other kernels use the
// second row of the group for routed blocks (DeviceBlock::scalars). If only other shard ranks have gradients of the
// group, the second row is not set, so this function uses the first row.
SHAMPOO_DEVICE inline double WeightOfStep(const DeviceGroup& group, bool is_routed) {
  const GroupSettings settings = is_routed ? RoutedSettings(group.settings) : group.settings;
  return WeightOfIterate(settings, settings.lr);
}

template <typename Rounding>
struct AdvanceAveragesBody {
  Tables tables;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceTile& tile = tables.scan_tiles[cta.index()];
    const DeviceBlock& block = tables.blocks[tile.block];
    const StepState& state = *tables.state;
    if (state.rejected != 0 || block.owned == 0) return;
    const DeviceGroup& group = tables.groups[block.group];
    if (tile.index == 0 && block.lr_sum.present() && state.go != 0 && group.active != 0) {
      cta.Once([&] {
        *reinterpret_cast<double*>(tables.state_out + block.lr_sum.offset) +=
            WeightOfStep(group, block.scalars != block.group);
      });
    }
    const bool is_updated = IsStepped(tables, tile.block) && tables.work[tile.block].update_skipped == 0;
    if (!block.ema_offset.present() || is_updated) return;
    if (block.computation == Dtype::kF64) {
      Age<double>(cta, tile, group);
    } else {
      Age<float>(cta, tile, group);
    }
  }

  // Moves the average of weight_ema towards the parameter. The state ema_offset is the average minus the parameter, so
  // this function multiplies the state by the decay.
  template <typename Real>
  SHAMPOO_DEVICE void Age(const Cta& cta, const DeviceTile& tile, const DeviceGroup& group) const {
    const DeviceBlock& block = tables.blocks[tile.block];
    const bool is_made = tables.state->go != 0 && group.active != 0;
    const int64_t steps = reinterpret_cast<const int64_t*>(tables.state_out)[block.group] + (is_made ? 1 : 0);
    const Rounding rounding(tables, tile.block, RoundedState::kWeightEma, steps);
    const StateSlot& slot = block.ema_offset;
    char* const offset = tables.state_out + slot.offset;
    const auto decay = static_cast<Real>(group.settings.weight_ema);
    const int64_t begin = TileBegin(tile);
    cta.ForEach(TileSize(block, tile), [&](int64_t i) {
      const Real old = ReadAs<Real>(offset, slot.dtype, begin + i);
      rounding.Write(offset, slot.dtype, begin + i, begin + i, old * decay);
    });
  }
};

// For the blocks of a bucket that this rank owns, writes the differences that an export adds to the parameters. In an
// export, the exchange buffers contain these differences. In a step, they contain updates.
struct SendAveragesBody {
  Tables tables;
  int32_t bucket;
  double blend;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceTile& tile = tables.scan_tiles[cta.index()];
    const DeviceBlock& block = tables.blocks[tile.block];
    const bool sends = block.owned != 0 && block.bucket == bucket && block.average_offset().present();
    if (tables.state->rejected != 0 || !sends) return;
    if (block.computation == Dtype::kF64) {
      Send<double>(cta, tile, block);
    } else {
      Send<float>(cta, tile, block);
    }
  }

  template <typename Real>
  SHAMPOO_DEVICE void Send(const Cta& cta, const DeviceTile& tile, const DeviceBlock& block) const {
    const StateSlot& slot = block.average_offset();
    const char* const offset = tables.state_out + slot.offset;
    char* const sent = tables.exchange_buffers + block.exchange_at;
    const auto factor = static_cast<Real>(ExportFactor(tables.groups[block.group].settings, blend));
    const int64_t begin = TileBegin(tile);
    cta.ForEach(TileSize(block, tile), [&](int64_t i) {
      WriteAs(sent, block.exchange_dtype, begin + i, factor * ReadAs<Real>(offset, slot.dtype, begin + i));
    });
  }
};

constexpr int kExportsAtOnce = 64;

struct ExportBody {
  Tables tables;
  const char* arena;
  ExportedParam values[kExportsAtOnce];
  int32_t first;
  int32_t count;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceTile& tile = tables.scan_tiles[cta.index()];
    const DeviceBlock& block = tables.blocks[tile.block];
    const int32_t at = block.param - first;
    if (at < 0 || at >= count || values[at].weights == nullptr) return;
    if (block.computation == Dtype::kF64) {
      Export<double>(cta, tile, block, values[at]);
    } else {
      Export<float>(cta, tile, block, values[at]);
    }
  }

  template <typename Real>
  SHAMPOO_DEVICE void Export(const Cta& cta, const DeviceTile& tile, const DeviceBlock& block,
                             const ExportedParam& exported) const {
    const DeviceParam& param = tables.params[block.param];
    const StateSlot& slot = block.average_offset();
    const char* const offset = arena + slot.offset;
    const auto factor = static_cast<Real>(exported.factor);
    const int64_t begin = TileBegin(tile);
    cta.ForEach(TileSize(block, tile), [&](int64_t i) {
      const int64_t place = PlaceOf(block, begin + i);
      if (slot.present()) {
        const Real difference = factor * ReadAs<Real>(offset, slot.dtype, begin + i);
        WriteAs(exported.weights, param.out_dtype, place,
                ReadAs<Real>(exported.param, param.param_dtype, place) + difference);
      } else {
        WriteAs(exported.weights, param.out_dtype, place, ReadAs<double>(exported.param, param.param_dtype, place));
      }
    });
  }
};

}  // namespace

cudaError_t MoveIterates(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation) {
  const cudaError_t error = LaunchOver<AveragedDifferenceBody>(stream, batch.tile_count, tables, batch, computation);
  return error != cudaSuccess ? error : Launch(stream, batch.block_count, AveragedDirectionBody{tables, batch});
}

cudaError_t AdvanceAverages(cudaStream_t stream, const Tables& tables) {
  return LaunchRounding<AdvanceAveragesBody>(stream, tables.scan_tile_count, tables);
}

cudaError_t SendAverages(cudaStream_t stream, const Tables& tables, int32_t bucket, double blend) {
  return Launch(stream, tables.scan_tile_count, SendAveragesBody{tables, bucket, blend});
}

cudaError_t ExportAverages(cudaStream_t stream, const Tables& tables, const char* arena, const ExportedParam* params,
                           int32_t count) {
  for (int32_t first = 0; first < count; first += kExportsAtOnce) {
    ExportBody body{};
    body.tables = tables;
    body.arena = arena;
    body.first = first;
    body.count = count - first < kExportsAtOnce ? count - first : kExportsAtOnce;
    bool is_wanted = false;
    for (int32_t i = 0; i < body.count; ++i) {
      body.values[i] = params[first + i];
      is_wanted = is_wanted || body.values[i].weights != nullptr;
    }
    const cudaError_t error = is_wanted ? Launch(stream, tables.scan_tile_count, body) : cudaSuccess;
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace shampoo::cuda
