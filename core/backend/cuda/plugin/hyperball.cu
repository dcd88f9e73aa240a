// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// norm_control hyperball: a rate and a decay of the ordinary update that move a parameter to its radius.
#include "core/backend/cuda/plugin/block_tile.h"
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/rules/norms.h"

namespace shampoo::cuda {
namespace {

SHAMPOO_DEVICE inline bool IsOnHyperball(const Tables& tables, int32_t b) {
  const BlockWork& work = tables.work[b];
  return IsStepped(tables, b) && tables.blocks[b].radius.present() && work.keeps_parameter == 0 &&
         IsFinite(work.scale.size);
}

// Computes |keep W - move P|^2 of a tile, or |W|^2.
template <typename Real>
struct MovedNormBody {
  Tables tables;
  BatchTables batch;
  bool is_moved;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BlockTile<Real> part(tables, batch, cta.index());
    if (!IsOnHyperball(tables, part.tile.block)) return;
    const void* const param = tables.buffers[part.block.buffers].param;
    const Dtype dtype = tables.params[part.block.param].param_dtype;
    const Real* const p = part.Direction(batch);
    const double keep = is_moved ? part.work.keep : 1;
    const double move = is_moved ? part.work.move : 0;
    const double square = cta.Sum(part.size, [&](int64_t i) {
      const auto w = static_cast<double>(ReadAs<Real>(param, dtype, PlaceOf(part.block, part.begin + i)));
      const double moved = keep * w - (is_moved ? move * static_cast<double>(p[i]) : 0);
      return moved * moved;
    });
    cta.Once([&] { batch.sums[2 * cta.index()] = square; });
  }
};

SHAMPOO_DEVICE inline double NormOf(const Cta& cta, const BatchTables& batch, const DeviceBlock& block) {
  return sqrt(cta.Sum(block.tiles, [&](int64_t i) { return batch.sums[2 * (block.first_tile + i)]; }));
}

// Hyperball needs no sums over W.
SHAMPOO_DEVICE inline NormControlStep HyperballStep(const DeviceGroup& group, const BlockWork& work) {
  const double norm = work.scale.size > 0 ? work.scale.size / (work.scale.down * work.scale.up) : 0;
  NormControlStep step(group.settings, group.lr, {}, work.radius, work.scale);
  step.Add({0, 0, norm * norm});
  return step;
}

// Determines the radius and the move.
struct RadiusBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int32_t b = batch.blocks[cta.index()];
    if (!IsOnHyperball(tables, b)) return;
    const DeviceBlock& block = tables.blocks[b];
    const double norm = NormOf(cta, batch, block);
    cta.Once([&] {
      const DeviceGroup& group = tables.groups[block.group];
      const double kept = *reinterpret_cast<const double*>(tables.state_out + block.radius.offset);
      const double known = group.settings.norm_radius > 0 ? group.settings.norm_radius : kept;
      BlockWork& work = tables.work[b];
      work.radius = known != 0 ? known : norm;
      const NormControlStep step = HyperballStep(group, work);
      const ControlledMove move = step.MoveOf({});
      work.keep = move.keep * (1 - DecayOf(group));
      work.move = move.move;
    });
  }
};

struct ReturnBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int32_t b = batch.blocks[cta.index()];
    if (!IsOnHyperball(tables, b)) return;
    const DeviceBlock& block = tables.blocks[b];
    const double moved = NormOf(cta, batch, block);
    cta.Once([&] {
      BlockWork& work = tables.work[b];
      if (work.radius == 0) work.states_fit = 0;  // W is 0: it has no norm to maintain
      const DeviceGroup& group = tables.groups[block.group];
      const double ratio = HyperballStep(group, work).Ratio(moved);
      work.lr = ratio * work.move;
      work.shrinkage = 1 - ratio * work.keep;
      work.scale = {1, 1, work.scale.size};
      work.on_hyperball = 1;
    });
  }
};

template <typename Real>
cudaError_t MoveAs(cudaStream_t stream, const Tables& tables, const BatchTables& batch) {
  const cudaError_t errors[] = {Launch(stream, batch.tile_count, MovedNormBody<Real>{tables, batch, false}),
                                Launch(stream, batch.block_count, RadiusBody{tables, batch}),
                                Launch(stream, batch.tile_count, MovedNormBody<Real>{tables, batch, true}),
                                Launch(stream, batch.block_count, ReturnBody{tables, batch})};
  for (const cudaError_t error : errors) {
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t MoveOnHyperballs(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation) {
  return computation == Dtype::kF64 ? MoveAs<double>(stream, tables, batch) : MoveAs<float>(stream, tables, batch);
}

}  // namespace shampoo::cuda
