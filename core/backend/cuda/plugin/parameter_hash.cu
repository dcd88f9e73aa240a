// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/backend/cuda/plugin/parameter_hash.h"

namespace shampoo::cuda {
namespace {

SHAMPOO_DEVICE inline uint64_t BitsOf(const void* base, Dtype dtype, int64_t at) {
  switch (dtype) {
    case Dtype::kF32:
      return static_cast<const uint32_t*>(base)[at];
    case Dtype::kF64:
      return static_cast<const uint64_t*>(base)[at];
    default:
      return static_cast<const uint16_t*>(base)[at];
  }
}

struct HashTileBody {
  Tables tables;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    if (!ComparesParameters(tables)) return;
    const DeviceTile& tile = tables.hash_tiles[cta.index()];
    const DeviceParam& param = tables.params[tile.block];
    const void* const data = tables.buffers[tile.block].param;
    const int64_t begin = TileBegin(tile);
    const uint64_t hash = cta.WrappingSum(data == nullptr ? 0 : TileSize(param, tile), [&](int64_t i) {
      const int64_t place = begin + i;
      return HashTerm(place, BitsOf(data, param.param_dtype, place));
    });
    cta.Once([&] { tables.tile_hashes[cta.index()] = hash; });
  }
};

struct HashParamBody {
  Tables tables;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    if (!ComparesParameters(tables)) return;
    const DeviceParam& param = tables.params[cta.index()];
    const uint64_t* const tiles = tables.tile_hashes + param.first_hash_tile;
    const uint64_t hash = cta.WrappingSum(param.hash_tiles, [&](int64_t i) { return tiles[i]; });
    cta.Once([&] { tables.hashes[cta.index()] = hash; });
  }
};

}  // namespace

cudaError_t HashParameters(cudaStream_t stream, const Tables& tables, int32_t count) {
  const cudaError_t error = Launch(stream, tables.hash_tile_count, HashTileBody{tables});
  return error != cudaSuccess ? error : Launch(stream, count, HashParamBody{tables});
}

}  // namespace shampoo::cuda
