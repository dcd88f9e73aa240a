// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Kernels of shard_mode=gather. They copy slices between the caller's buffers, the messages between shard ranks, and
// whole blocks. BlockGather (core/step/block_gather.cc) and slice_pass.cc (core/backend/cpu) do the same on the CPU.
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/backend/cuda/plugin/kernel_common.h"
#include "core/backend/cuda/plugin/rank_decision.h"

namespace shampoo::cuda {
namespace {

// Number of blocks that one CTA handles in TakeAgreedGradientsBody.
constexpr int64_t kBlocksAtOnce = 1024;

// Returns the address of the buffer of a whole block; nullptr if `used` is false.
SHAMPOO_DEVICE inline char* BufferAt(const Tables& tables, int64_t offset, bool used) {
  return used ? tables.exchange_buffers + offset : nullptr;
}

// Finds which blocks and groups take part in the step. Runs after the first agreement of the shard ranks (agree.cu).
struct TakeAgreedGradientsBody {
  Tables tables;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    if (tables.state->rejected != 0) return;
    const ShardSegments segments(tables);
    const int64_t begin = cta.index() * kBlocksAtOnce;
    const int64_t left = tables.block_count - begin;
    cta.ForEach(left < kBlocksAtOnce ? left : kBlocksAtOnce, [&](int64_t i) {
      const DeviceBlock& block = tables.blocks[begin + i];
      const unsigned char agreed = segments.AgreedGradientOf(block.param);
      const bool is_used = block.owned != 0 && agreed >= kGradient;
      char* const gradient = BufferAt(tables, block.gradient_at, is_used);
      // The update of a whole block overwrites its gradient. For a whole block, kernels only test whether the address
      // Buffers::copy is nullptr, and never write to this address. Any address except nullptr therefore suffices.
      tables.buffers[block.buffers] = {BufferAt(tables, block.param_at, is_used), gradient, gradient,
                                       agreed == kGradientAndCopy ? gradient : nullptr};
    });
    if (cta.index() > 0) return;
    for (int32_t g = 0; g < tables.group_count; ++g) {
      const int64_t first = cta.First(tables.param_count, [&](int64_t p) {
        return tables.params[p].group == g && segments.AgreedGradientOf(p) >= kGradient;
      });
      cta.Once([&] { TakeGroup(g, first < tables.param_count); });
    }
  }

  SHAMPOO_DEVICE void TakeGroup(int32_t g, bool has_gradients) const {
    DeviceGroup& group = tables.groups[g];
    group.has_gradients = has_gradients ? 1 : 0;
    group.active = has_gradients || (group.active != 0 && group.settings.count_empty_steps) ? 1 : 0;
  }
};

// A tile of a slice, and the locations of its elements.
class SliceTile {
 public:
  SHAMPOO_DEVICE SliceTile(const Tables& tables, int64_t index)
      : tile_(tables.slice_tiles[index]), slice(tables.slices[tile_.block]), series_(tables.series) {
    begin = TileBegin(tile_);
    size = TileSize(slice, tile_);
  }

  // Calls work(packed, dense, local) for every element of the tile, with three positions of the element: in the packed
  // slice, in the dense block, and in the buffer of the rank that holds the slice.
  template <typename Work>
  SHAMPOO_DEVICE void ForEach(const Cta& cta, const Work& work) const {
    cta.ForEach(size, [&](int64_t i) {
      const int64_t packed = begin + i;
      const RunSeries& series = SeriesOf(packed);
      // A block has fewer than 2^31 elements, so 32-bit divisions suffice.
      const auto after = static_cast<uint32_t>(packed - series.packed);
      const auto length = static_cast<uint32_t>(series.length);
      const int64_t run = after / length;
      const int64_t rest = after % length;
      work(packed, series.dense + run * series.dense_step + rest, series.local + run * series.local_step + rest);
    });
  }

 private:
  SHAMPOO_DEVICE const RunSeries& SeriesOf(int64_t packed) const {
    int64_t low = slice.first_series;
    int64_t high = low + slice.series_count;
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      if (series_[middle].packed <= packed) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return series_[low];
  }

  const DeviceTile& tile_;

 public:
  const DeviceSlice& slice;
  int64_t begin;  // position of the tile's first element in the packed slice
  int64_t size;

 private:
  const RunSeries* series_;
};

SHAMPOO_DEVICE inline void CopyElement(void* to, int64_t to_at, const void* from, int64_t from_at, Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      static_cast<uint32_t*>(to)[to_at] = static_cast<const uint32_t*>(from)[from_at];
      return;
    case Dtype::kF64:
      static_cast<uint64_t*>(to)[to_at] = static_cast<const uint64_t*>(from)[from_at];
      return;
    default:
      static_cast<uint16_t*>(to)[to_at] = static_cast<const uint16_t*>(from)[from_at];
  }
}

struct PackShardsBody {
  Tables tables;
  int64_t first;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const SliceTile tile(tables, first + cta.index());
    const DeviceBlock& block = tables.blocks[tile.slice.block];
    const Buffers& buffers = tables.buffers[block.param];
    if (tables.state->rejected != 0 || tile.slice.collected == 0 || buffers.grad == nullptr) return;
    const DeviceParam& param = tables.params[block.param];
    char* const gradient = tables.exchange_buffers + tile.slice.gradient_at;
    char* const value = tables.exchange_buffers + tile.slice.param_at;
    tile.ForEach(cta, [&](int64_t packed, int64_t, int64_t local) {
      CopyElement(gradient, packed, buffers.grad, local, param.grad_dtype);
      CopyElement(value, packed, buffers.param, local, param.param_dtype);
    });
  }
};

struct UnpackWholeBody {
  Tables tables;
  int64_t first;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const SliceTile tile(tables, first + cta.index());
    const DeviceBlock& block = tables.blocks[tile.slice.block];
    if (tables.state->rejected != 0 || tile.slice.collected == 0) return;
    if (tables.buffers[block.buffers].grad == nullptr) return;
    const DeviceParam& param = tables.params[block.param];
    const char* const gradient = tables.exchange_buffers + tile.slice.gradient_at;
    const char* const value = tables.exchange_buffers + tile.slice.param_at;
    char* const whole_gradient = tables.exchange_buffers + block.gradient_at;
    char* const whole_value = tables.exchange_buffers + block.param_at;
    tile.ForEach(cta, [&](int64_t packed, int64_t dense, int64_t) {
      CopyElement(whole_gradient, dense, gradient, packed, param.grad_dtype);
      CopyElement(whole_value, dense, value, packed, param.param_dtype);
    });
  }
};

SHAMPOO_DEVICE inline bool IsMarkedSkipped(const Cta& cta, const char* update, int64_t element_bytes) {
  return cta.First(element_bytes, [&](int64_t i) { return static_cast<unsigned char>(update[i]) != kSkippedMark; }) ==
         element_bytes;
}

struct PackUpdatesBody {
  Tables tables;
  int64_t first;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const SliceTile tile(tables, first + cta.index());
    const DeviceBlock& block = tables.blocks[tile.slice.block];
    const bool exports = tables.state->exports != 0;
    const bool sends = exports ? block.average_offset().present() : tables.buffers[block.buffers].grad != nullptr;
    if (tables.state->go == 0 || !sends) return;
    const BlockWork& work = tables.work[tile.slice.block];
    const bool skipped = !exports && (work.go == 0 || work.update_skipped != 0);
    char* const update = tables.exchange_buffers + tile.slice.update_at;
    const int64_t bytes = static_cast<int64_t>(SizeOf(block.exchange_dtype));
    if (skipped) {
      if (tile.begin > 0) return;
      return cta.ForEach(bytes, [&](int64_t i) { update[i] = static_cast<char>(kSkippedMark); });
    }
    const char* const whole = tables.exchange_buffers + block.exchange_at;
    tile.ForEach(cta, [&](int64_t packed, int64_t dense, int64_t) {
      CopyElement(update, packed, whole, dense, block.exchange_dtype);
    });
    if (tile.begin > 0) return;
    // An element whose bytes all equal kSkippedMark is a NaN. With communicate=params, the first element of the slice
    // may be this NaN. Change the sign of this element, so that it is still a NaN but is not taken for the mark.
    // Exports send no marks, and their receivers do not check for marks.
    if (exports || !IsMarkedSkipped(cta, update, bytes)) return;
    cta.Once([&] { update[bytes - 1] = static_cast<char>(update[bytes - 1] & 0x7f); });
  }
};

template <typename Rounding>
struct ApplySlicesBody {
  Tables tables;
  int64_t first;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const SliceTile tile(tables, first + cta.index());
    if (tables.state->rejected != 0) return;
    const DeviceBlock& block = tables.blocks[tile.slice.block];
    const Buffers& buffers = tables.buffers[block.param];
    if (tables.state->go == 0 || !ReceivesUpdate(tables, block)) return PassThroughSlice(cta, tile, block, buffers);
    const char* const update = tables.exchange_buffers + tile.slice.update_at;
    const bool exports = tables.state->exports != 0;
    if (!exports && IsMarkedSkipped(cta, update, static_cast<int64_t>(SizeOf(block.exchange_dtype)))) {
      PassThroughSlice(cta, tile, block, buffers);
      // The owner of the block has already recorded that the update is skipped.
      if (tile.begin == 0 && block.owned == 0) cta.Once([&] { tables.work[tile.slice.block].update_skipped = 1; });
      return;
    }
    if (block.computation == Dtype::kF64) {
      Apply<double>(cta, tile, block, buffers, update);
    } else {
      Apply<float>(cta, tile, block, buffers, update);
    }
  }

 private:
  SHAMPOO_DEVICE void PassThroughSlice(const Cta& cta, const SliceTile& tile, const DeviceBlock& block,
                                       const Buffers& buffers) const {
    const UnchangedOutputs outputs(tables, block, buffers);
    if (!outputs.any()) return;
    tile.ForEach(cta, [&](int64_t, int64_t, int64_t local) { outputs.Write(local); });
  }

  template <typename Real>
  SHAMPOO_DEVICE void Apply(const Cta& cta, const SliceTile& tile, const DeviceBlock& block, const Buffers& buffers,
                            const char* update) const {
    const ReceivedOutputs<Real, Rounding> outputs(tables, tile.slice.block, buffers);
    tile.ForEach(cta, [&](int64_t packed, int64_t dense, int64_t local) {
      outputs.Write(local, dense, ReadAs<Real>(update, block.exchange_dtype, packed));
    });
  }
};

}  // namespace

cudaError_t TakeAgreedGradients(cudaStream_t stream, const Tables& tables) {
  const int64_t ctas = (tables.block_count + kBlocksAtOnce - 1) / kBlocksAtOnce;
  return Launch(stream, ctas > 0 ? ctas : 1, TakeAgreedGradientsBody{tables});
}

cudaError_t PackShards(cudaStream_t stream, const Tables& tables, const TileRange& tiles) {
  return Launch(stream, tiles.count, PackShardsBody{tables, tiles.first});
}

cudaError_t UnpackWhole(cudaStream_t stream, const Tables& tables, const TileRange& tiles) {
  return Launch(stream, tiles.count, UnpackWholeBody{tables, tiles.first});
}

cudaError_t PackUpdates(cudaStream_t stream, const Tables& tables, const TileRange& tiles) {
  return Launch(stream, tiles.count, PackUpdatesBody{tables, tiles.first});
}

cudaError_t ApplySlices(cudaStream_t stream, const Tables& tables, const TileRange& tiles) {
  return LaunchRounding<ApplySlicesBody>(stream, tiles.count, tables, tiles.first);
}

}  // namespace shampoo::cuda
