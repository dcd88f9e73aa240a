// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Kernels of the keys norm_control and update_floor (core/rules/norms.h). For each block to which one of these keys
// applies, the kernels compute the old parameter minus the new one, and write this difference to OtherBuffer()
// (block_tile.h). The difference then replaces the direction.
#include "core/backend/cuda/plugin/block_tile.h"
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/rules/norms.h"

namespace shampoo::cuda {
namespace {

SHAMPOO_DEVICE inline bool IsControlled(const Tables& tables, int32_t b) {
  const BlockWork& work = tables.work[b];
  return IsStepped(tables, b) && tables.blocks[b].norm_rows > 0 && work.keeps_parameter == 0 &&
         IsFinite(work.scale.size);
}

SHAMPOO_DEVICE inline bool ControlsRowsOf(const Tables& tables, const DeviceBlock& block) {
  return ControlsRows(tables.groups[block.scalars].settings);
}

// A view of one block. Returns elements of the parameter before weight decay (W()) and after weight decay (Decayed()).
// `p` is the direction before it is scaled.
template <typename Real>
struct ControlledBlock {
  const Tables& tables;
  const DeviceBlock& block;
  const GroupSettings& settings;
  const Real* p;
  const void* param;
  Dtype dtype;
  double decay;
  double ratio;

  SHAMPOO_DEVICE ControlledBlock(const Tables& all, const BatchTables& batch, int32_t b)
      : tables(all),
        block(all.blocks[b]),
        settings(all.groups[block.group].settings),
        p(static_cast<const Real*>(DirectionBuffer(batch, block, all.work[b])) + block.at),
        param(all.buffers[block.buffers].param),
        dtype(all.params[block.param].param_dtype),
        decay(DecayOf(all.groups[block.group])),
        ratio(all.work[b].ratio) {}

  SHAMPOO_DEVICE Real W(int64_t i) const { return ReadAs<Real>(param, dtype, PlaceOf(block, i)); }
  SHAMPOO_DEVICE double Decayed(int64_t i) const { return DecayedElement(settings, decay, W(i), p[i]); }
  SHAMPOO_DEVICE NormSums SumsOf(const Cta& cta, int64_t count, int64_t first, int64_t step) const {
    const auto sum = [&](double NormSums::*term) {
      return cta.Sum(count, [&](int64_t i) { return Terms(first + i * step).*term; });
    };
    return {sum(&NormSums::ww), sum(&NormSums::pw), sum(&NormSums::pp)};
  }
  // Returns an element of W1, the parameter after ControlledMove and before Ratio() (core/rules/norms.h).
  SHAMPOO_DEVICE double Moved(const NormControlRow* rows, int64_t i) const {
    return rows[RowOf(i)].move.Of(Decayed(i), static_cast<double>(p[i]));
  }

 private:
  SHAMPOO_DEVICE NormSums Terms(int64_t i) const { return TermsOf(Decayed(i), static_cast<double>(p[i])); }
  SHAMPOO_DEVICE int64_t RowOf(int64_t i) const {
    if (block.norm_rows == 1) return 0;
    const auto at = static_cast<uint32_t>(i);  // a block has fewer than 2^31 elements
    return block.rows_are_contiguous != 0 ? at / static_cast<uint32_t>(block.matrix_columns)
                                          : at % static_cast<uint32_t>(block.matrix_rows);
  }
};

SHAMPOO_DEVICE inline NormControlRow* RowsOf(const BatchTables& batch, const DeviceBlock& block) {
  return batch.norm_rows + block.norm_row_at;
}

// Returns the norm that norm_control=hyperball maintains, or 0 if this norm is not known yet.
SHAMPOO_DEVICE inline double KnownRadius(const Tables& tables, const DeviceBlock& block) {
  return shampoo::KnownRadius(tables.groups[block.scalars].settings,
                              *reinterpret_cast<const double*>(tables.state_out + block.radius.offset));
}
SHAMPOO_DEVICE inline bool IsOnHyperball(const DeviceBlock& block) { return block.radius.present(); }
SHAMPOO_DEVICE inline bool NeedsParamNorm(const Tables& tables, const DeviceBlock& block) {
  return IsOnHyperball(block) && KnownRadius(tables, block) == 0;
}

// Computes the NormSums of a tile, unless update_floor_rows is set (see RowSumsBody). Also computes the sum of squares
// of W() in the tile if NeedsParamNorm() is true.
template <typename Real>
struct TileSumsBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BlockTile<Real> part(tables, batch, cta.index());
    if (!IsControlled(tables, part.tile.block)) return;
    const ControlledBlock<Real> block(tables, batch, part.tile.block);
    ControlSums sums;
    if (!ControlsRowsOf(tables, part.block)) sums.of_tile = block.SumsOf(cta, part.size, part.begin, 1);
    if (NeedsParamNorm(tables, part.block)) {
      sums.param = cta.Sum(part.size, [&](int64_t i) {
        const auto w = static_cast<double>(block.W(part.begin + i));
        return w * w;
      });
    }
    cta.Once([&] { batch.control_sums[cta.index()] = sums; });
  }
};

// With update_floor_rows: computes the NormSums of one row.
template <typename Real>
struct RowSumsBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceTile& row = batch.row_tiles[cta.index()];
    if (!IsControlled(tables, row.block)) return;
    const ControlledBlock<Real> part(tables, batch, row.block);
    const DeviceBlock& block = part.block;
    const NormSums sums = block.rows_are_contiguous != 0
                              ? part.SumsOf(cta, block.matrix_columns, row.index * block.matrix_columns, 1)
                              : part.SumsOf(cta, block.matrix_columns, row.index, block.matrix_rows);
    cta.Once([&] { RowsOf(batch, block)[row.index].sums = sums; });
  }
};

SHAMPOO_DEVICE inline NormControlStep ControlStepOf(const DeviceGroup& group, const BlockWork& work) {
  NormControlStep step(group.settings, group.lr, work.control, work.radius, work.scale);
  step.Add(work.square, work.product);
  return step;
}

// Determines the norm that norm_control=hyperball maintains, and the ControlledMove of each NormControlRow of a block.
// One CTA processes one block.
struct MoveBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int32_t b = batch.blocks[cta.index()];
    if (!IsControlled(tables, b)) return;
    const DeviceBlock& block = tables.blocks[b];
    const DeviceGroup& group = tables.groups[block.scalars];
    BlockWork& work = tables.work[b];
    NormControlRow* const rows = RowsOf(batch, block);
    const auto over_tiles = [&](const auto& term) {
      return cta.Sum(block.tiles, [&](int64_t i) { return term(batch.control_sums[block.first_tile + i]); });
    };
    if (!ControlsRowsOf(tables, block)) {
      NormSums sums;
      sums.ww = over_tiles([](const ControlSums& tile) { return tile.of_tile.ww; });
      sums.pw = over_tiles([](const ControlSums& tile) { return tile.of_tile.pw; });
      sums.pp = over_tiles([](const ControlSums& tile) { return tile.of_tile.pp; });
      cta.Once([&] { rows[0].sums = sums; });
    }
    double radius = IsOnHyperball(block) ? KnownRadius(tables, block) : 0;
    if (NeedsParamNorm(tables, block)) radius = sqrt(over_tiles([](const ControlSums& tile) { return tile.param; }));
    const auto over_rows = [&](const auto& term) {
      return cta.Sum(block.norm_rows, [&](int64_t i) { return term(rows[i].sums); });
    };
    NormSums total;
    total.ww = over_rows([](const NormSums& row) { return row.ww; });
    total.pw = over_rows([](const NormSums& row) { return row.pw; });
    total.pp = over_rows([](const NormSums& row) { return row.pp; });
    NormControlStep step(group.settings, group.lr, total, radius, work.scale);
    const double square = over_rows([&](const NormSums& row) { return step.SquareTerm(row); });
    const double product = over_rows([&](const NormSums& row) { return step.ProductTerm(row); });
    step.Add(square, product);
    cta.ForEach(block.norm_rows, [&](int64_t i) { rows[i].move = step.MoveOf(rows[i].sums); });
    cta.Once([&] {
      work.radius = radius;
      work.control = total;
      work.square = square;
      work.product = product;
      work.ratio = 1;
      if (!CanControl(group.settings, total, radius)) work.states_fit = 0;
    });
  }
};

// Computes the contribution of a tile to |W1|^2, where W1 is the result of ControlledMove.
template <typename Real>
struct MovedNormBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BlockTile<Real> part(tables, batch, cta.index());
    if (!IsControlled(tables, part.tile.block) || !ControlStepOf(part.group, part.work).NeedsNorm()) return;
    const ControlledBlock<Real> block(tables, batch, part.tile.block);
    const NormControlRow* const rows = RowsOf(batch, part.block);
    const double square = cta.Sum(part.size, [&](int64_t i) {
      const double moved = block.Moved(rows, part.begin + i);
      return moved * moved;
    });
    cta.Once([&] { batch.sums[2 * cta.index()] = square; });
  }
};

SHAMPOO_DEVICE inline double NormOf(const Cta& cta, const BatchTables& batch, const DeviceBlock& block) {
  return sqrt(cta.Sum(block.tiles, [&](int64_t i) { return batch.sums[2 * (block.first_tile + i)]; }));
}

struct RatioBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int32_t b = batch.blocks[cta.index()];
    if (!IsControlled(tables, b)) return;
    const DeviceBlock& block = tables.blocks[b];
    BlockWork& work = tables.work[b];
    const NormControlStep step = ControlStepOf(tables.groups[block.scalars], work);
    if (!step.NeedsNorm()) return;
    const double moved = NormOf(cta, batch, block);
    cta.Once([&] { work.ratio = step.Ratio(moved); });
  }
};

// Writes the old parameter minus the new one to OtherBuffer(), and computes the sum of squares of this difference for
// each tile.
template <typename Real>
struct DifferenceBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BlockTile<Real> part(tables, batch, cta.index());
    if (!IsControlled(tables, part.tile.block)) return;
    const ControlledBlock<Real> block(tables, batch, part.tile.block);
    const NormControlRow* const rows = RowsOf(batch, part.block);
    Real* const difference = part.In(OtherBuffer(batch, part.block, part.work));
    const double square = cta.Sum(part.size, [&](int64_t i) {
      const auto w = static_cast<double>(block.W(part.begin + i));
      difference[i] = static_cast<Real>(ControlledDifference(w, block.ratio, block.Moved(rows, part.begin + i)));
      return static_cast<double>(difference[i]) * static_cast<double>(difference[i]);
    });
    cta.Once([&] { batch.sums[2 * cta.index()] = square; });
  }
};

// Records that the difference has replaced the direction, and records the norm of the difference.
struct ReplaceBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int32_t b = batch.blocks[cta.index()];
    if (!IsControlled(tables, b)) return;
    const double norm = NormOf(cta, batch, tables.blocks[b]);
    cta.Once([&] {
      tables.work[b].scale = {1, 1, norm};
      tables.work[b].is_difference = 1;
    });
  }
};

template <typename Real>
cudaError_t ControlAs(cudaStream_t stream, const Tables& tables, const BatchTables& batch) {
  cudaError_t error = Launch(stream, batch.tile_count, TileSumsBody<Real>{tables, batch});
  const auto then = [&](int64_t ctas, const auto& body) {
    if (error == cudaSuccess) error = Launch(stream, ctas, body);
  };
  then(batch.row_tile_count, RowSumsBody<Real>{tables, batch});
  then(batch.block_count, MoveBody{tables, batch});
  then(batch.tile_count, MovedNormBody<Real>{tables, batch});
  then(batch.block_count, RatioBody{tables, batch});
  then(batch.tile_count, DifferenceBody<Real>{tables, batch});
  then(batch.block_count, ReplaceBody{tables, batch});
  return error;
}

}  // namespace

cudaError_t ControlNorms(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation) {
  return computation == Dtype::kF64 ? ControlAs<double>(stream, tables, batch)
                                    : ControlAs<float>(stream, tables, batch);
}

}  // namespace shampoo::cuda
