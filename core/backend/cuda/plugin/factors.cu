// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/block_tile.h"
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/backend/cuda/plugin/device_schedule.h"
#include "core/backend/cuda/plugin/kernel_common.h"
#include "core/backend/cuda/plugin/matrix_tile.h"
#include "core/rules/growth.h"

namespace shampoo::cuda {
namespace {

template <typename Real>
struct LoadGradientBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceTile& tile = batch.tiles[cta.index()];
    const DeviceBlock& block = tables.blocks[tile.block];
    const int64_t begin = TileBegin(tile);
    const int64_t size = TileSize(block, tile);
    Real* const to = static_cast<Real*>(batch.first) + block.at + begin;
    // Matrix products also read the tensors of blocks that the step does not update, so these tensors are set to zero.
    if (!IsStepped(tables, tile.block)) return cta.ForEach(size, [&](int64_t i) { to[i] = 0; });
    const DeviceGroup& group = tables.groups[block.scalars];
    const DeviceParam& param = tables.params[block.param];
    const Buffers& buffers = tables.buffers[block.buffers];
    const Real scale = static_cast<Real>(group.gradient_scale);
    const Real decay = static_cast<Real>(group.coupled_decay);
    // A float64 gradient may be outside the range of float32 even if the scaled gradient is inside this range.
    const bool wide = param.grad_dtype == Dtype::kF64;
    struct Loaded {
      Real gradient, param;
    };
    const auto load = [&](int64_t i) -> Loaded {
      const int64_t place = PlaceOf(block, begin + i);
      return {wide ? static_cast<Real>(group.gradient_scale * ReadAs<double>(buffers.grad, Dtype::kF64, place))
                   : ReadAs<Real>(buffers.grad, param.grad_dtype, place),
              decay == 0 ? Real{0} : ReadAs<Real>(buffers.param, param.param_dtype, place)};
    };
    const Real own_scale = wide ? Real{1} : scale;
    cta.ForEachLoaded(size, load, [&](int64_t i, const Loaded& from) {
      to[i] = decay == 0 ? ScaledGradient(own_scale, from.gradient)
                         : ScaledGradient(own_scale, from.gradient, decay, from.param);
    });
  }
};

template <typename Real>
struct MoveDimBody {
  const Real* from;
  Real* to;
  int64_t stride;
  int64_t tiles;
  Unfolding unfolding;
  int32_t back;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int64_t tensor = cta.index() / tiles * stride;
    const int64_t begin = cta.index() % tiles * kTileElements;
    const int64_t elements = unfolding.before * unfolding.d * unfolding.after;
    const int64_t size = elements - begin < kTileElements ? elements - begin : kTileElements;
    const Unfolding& u = unfolding;
    // If `back` is 0, `from` has the shape (before, d, after), and `to` has the shape (d, before, after). If `back` is
    // 1, the two shapes are swapped. Neighboring threads write neighboring elements. A block has fewer than 2^31
    // elements, so 32-bit divisions suffice; 64-bit divisions are slow.
    const auto after = static_cast<uint32_t>(u.after);
    const int64_t outer = back != 0 ? u.before : u.d;
    const int64_t inner = back != 0 ? u.d : u.before;
    cta.ForEach(size, [&](int64_t i) {
      const auto at = static_cast<uint32_t>(begin + i);
      const uint32_t rest = at / after;
      const int64_t source =
          (static_cast<int64_t>(rest % static_cast<uint32_t>(inner)) * outer + rest / static_cast<uint32_t>(inner)) *
              u.after +
          at % after;
      to[tensor + at] = from[tensor + source];
    });
  }
};

// Copies a tile of the lower triangle of a stored matrix to the upper triangle, if both triangles are stored.
template <typename Real>
SHAMPOO_DEVICE inline void MirrorState(const Cta& cta, const MatrixTile& tile, const StateSlot& slot, char* matrix) {
  if (slot.form != SymmetricForm::kSquare) return;
  tile.ForEachUpper(cta, [&](int64_t r, int64_t c) {
    WriteAs(matrix, slot.dtype, r * tile.d + c, ReadAs<Real>(matrix, slot.dtype, c * tile.d + r));
  });
}

SHAMPOO_DEVICE inline bool IsKl(const Tables& tables, const DeviceBlock& block) {
  return tables.groups[block.group].settings.factor_correction == FactorTerm::kKl;
}

// Writes a tile of the identity matrix, and the mirror image of the tile.
template <typename Real>
SHAMPOO_DEVICE inline void WriteIdentity(const Cta& cta, const MatrixTile& tile, Real* matrix) {
  tile.ForEachLower(cta, [&](int64_t r, int64_t c) { matrix[r * tile.d + c] = r == c ? 1 : 0; });
  tile.Mirror(cta, matrix);
}

// Copies a tile of X from the state to `matrix`, and writes the mirror image of the tile.
template <typename Real>
SHAMPOO_DEVICE inline void LoadInverseRoot(const Cta& cta, const MatrixTile& tile, const StateSlot& slot,
                                           const char* inverse, Real* matrix) {
  tile.ForEachLower(cta, [&](int64_t r, int64_t c) {
    matrix[r * tile.d + c] = ReadAs<Real>(inverse, slot.dtype, KeptAt(slot.form, tile.d, r, c));
  });
  tile.Mirror(cta, matrix);
}

template <typename Real>
struct LoadInverseRootBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceMatrixTile& tile = batch.matrix_tiles[cta.index()];
    const DeviceBlock& block = tables.blocks[tile.block];
    const MatrixTile matrix_tile(tile, block.shape[tile.dim]);
    Real* const matrix = static_cast<Real*>(batch.matrices) + block.matrix_at[tile.dim];
    if (!IsStepped(tables, tile.block)) return WriteIdentity(cta, matrix_tile, matrix);
    const StateSlot& slot = block.inverse[tile.dim];
    LoadInverseRoot(cta, matrix_tile, slot, tables.state_out + slot.offset, matrix);
  }
};

// Returns whether this step updates the factor matrix of dim k with the whitened gradient (UpdateWhitenedFactors).
SHAMPOO_DEVICE inline bool UpdatesWhitened(const Tables& tables, int32_t b, int32_t k) {
  const DeviceBlock& block = tables.blocks[b];
  return UpdatesStates(tables, b) && k < block.factors && block.factor[k].present() && IsKl(tables, block) &&
         tables.groups[block.group].updates_factors;
}

template <typename Real>
struct SquareWhitenedGradientBody {
  Tables tables;
  BatchTables batch;
  int32_t k;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BlockTile<Real> part(tables, batch, cta.index());
    if (!UpdatesWhitened(tables, part.tile.block, k)) return;
    const Real* const g = part.In(FactorCount(part.block) % 2 == 0 ? batch.second : batch.first);
    const double square = SumOfSquares(cta, g, part.size);
    cta.Once([&] { batch.sums[2 * cta.index()] = square; });
  }
};

struct CheckWhitenedGradientBody {
  Tables tables;
  BatchTables batch;
  int32_t k;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int32_t b = batch.blocks[cta.index()];
    const DeviceBlock& block = tables.blocks[b];
    // If a block has a single factor matrix, the gradient is not whitened, and CheckBlocks() has already checked this
    // gradient.
    if (!UpdatesWhitened(tables, b, k) || FactorCount(block) == 1) return;
    const double square = cta.Sum(block.tiles, [&](int64_t i) { return batch.sums[2 * (block.first_tile + i)]; });
    const bool fits =
        TermFits(square, tables.groups[block.group].factor_weight, block.computation, block.factor[k].dtype);
    cta.Once([&] {
      if (!fits) tables.work[b].states_fit = 0;
    });
  }
};

template <typename Real>
struct UpdateWhitenedFactorBody {
  Tables tables;
  BatchTables batch;
  int32_t k;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceMatrixTile& tile = batch.matrix_tiles[cta.index()];
    if (tile.dim != k || !UpdatesWhitened(tables, tile.block, k)) return;
    const DeviceBlock& block = tables.blocks[tile.block];
    const DeviceGroup& group = tables.groups[block.group];
    const MatrixTile matrix_tile(tile, block.shape[k]);
    const StateSlot& slot = block.factor[k];
    const Real* const product = static_cast<const Real*>(batch.matrices) + block.matrix_at[k];
    char* const factor = tables.state_out + slot.offset;
    AverageFactor(cta, matrix_tile, slot, factor, group.factor_decay, group.factor_weight, product);
    MirrorState<Real>(cta, matrix_tile, slot, factor);
  }
};

template <typename Real>
struct UpdateFactorBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceMatrixTile& tile = batch.matrix_tiles[cta.index()];
    const DeviceBlock& block = tables.blocks[tile.block];
    const MatrixTile matrix_tile(tile, block.shape[tile.dim]);
    const int64_t d = matrix_tile.d;
    Real* const matrix = static_cast<Real*>(batch.matrices) + block.matrix_at[tile.dim];
    // The solver also processes blocks whose states do not change. Such blocks get the identity matrix, because it is
    // finite.
    if (!UpdatesStates(tables, tile.block)) return WriteIdentity(cta, matrix_tile, matrix);
    const bool is_updated = IsKl(tables, block);
    const DeviceGroup& group = tables.groups[block.group];
    const StateSlot& slot = block.factor[tile.dim];
    const Real decay = static_cast<Real>(group.factor_decay);
    const Real weight = static_cast<Real>(group.factor_weight);
    char* const factor = tables.state_out + slot.offset;
    const RootTask task = tables.work[tile.block].task;
    const bool wanted = tables.work[tile.block].rule == DirectionRule::kPrecondition;
    const StateSlot& inverse_slot = block.inverse[tile.dim];
    const char* const inverse = tables.state_out + inverse_slot.offset;
    Real* snapshot = nullptr;
    Real* async_matrix = nullptr;
    if (task != RootTask::kNone && task != RootTask::kCompute) {
      snapshot = reinterpret_cast<Real*>(tables.state_out + block.snapshot[tile.dim].offset);
      async_matrix = static_cast<Real*>(batch.async_matrices) + block.matrix_at[tile.dim];
    }
    struct Loaded {
      Real factor, product, replacement;
    };
    // `matrix` receives the matrix that later kernels of the step read: the snapshot, the async root, X or, in all
    // other cases, the new factor matrix.
    const bool reads_inverse = wanted && !Refreshes(task);
    const auto replacement_at = [&](int64_t r, int64_t c) {
      if (task == RootTask::kFromSnapshot) return snapshot[r * d + c];
      if (task == RootTask::kAdoptDeviceRoots) return async_matrix[r * d + c];
      return reads_inverse ? ReadAs<Real>(inverse, inverse_slot.dtype, KeptAt(inverse_slot.form, d, r, c)) : Real{0};
    };
    const bool is_replaced = reads_inverse || task == RootTask::kFromSnapshot || task == RootTask::kAdoptDeviceRoots;
    const auto load = [&](int64_t r, int64_t c) -> Loaded {
      return {ReadAs<Real>(factor, slot.dtype, KeptAt(slot.form, d, r, c)), matrix[r * d + c], replacement_at(r, c)};
    };
    matrix_tile.ForEachLowerLoaded(cta, load, [&](int64_t r, int64_t c, const Loaded& old) {
      const Real value = is_updated ? old.factor : NextAverage(decay, old.factor, weight, old.product);
      WriteAs(factor, slot.dtype, KeptAt(slot.form, d, r, c), value);
      if (task == RootTask::kTakeSnapshot) {
        snapshot[r * d + c] = value;
        async_matrix[r * d + c] = value;
      }
      matrix[r * d + c] = is_replaced ? old.replacement : value;
    });
    MirrorState<Real>(cta, matrix_tile, slot, factor);
    matrix_tile.Mirror(cta, matrix);
    if (task == RootTask::kTakeSnapshot) matrix_tile.Mirror(cta, async_matrix);
  }
};

template <typename Real>
struct StoreRootBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceMatrixTile& tile = batch.matrix_tiles[cta.index()];
    const DeviceBlock& block = tables.blocks[tile.block];
    if (!UpdatesStates(tables, tile.block) || !Refreshes(tables.work[tile.block].task)) return;
    const MatrixTile matrix_tile(tile, block.shape[tile.dim]);
    const int64_t d = matrix_tile.d;
    Real* const matrix = static_cast<Real*>(batch.matrices) + block.matrix_at[tile.dim];
    const StateSlot& slot = block.inverse[tile.dim];
    char* const inverse = tables.state_out + slot.offset;
    const RootStatus& status = tables.roots[block.root_at[tile.dim]];
    if (status.failure == RootFailure::kNone) {
      matrix_tile.ForEachLower(cta, [&](int64_t r, int64_t c) {
        const Real value = matrix[r * d + c];
        WriteAs(inverse, slot.dtype, KeptAt(slot.form, d, r, c), value);
      });
      MirrorState<Real>(cta, matrix_tile, slot, inverse);
    } else {
      LoadInverseRoot(cta, matrix_tile, slot, inverse, matrix);
    }
    if (tile.row > 0) return;
    auto* const flags = reinterpret_cast<int32_t*>(tables.state_out + block.diagonal.offset);
    cta.Once([&] {
      if (status.diagonal_input == 0) flags[tile.dim] = 0;
    });
  }
};

SHAMPOO_DEVICE inline void RecordTask(const Tables& tables, int32_t b) {
  const DeviceBlock& block = tables.blocks[b];
  if (!block.snapshot_step.present()) return;
  auto* const step = reinterpret_cast<int64_t*>(tables.state_out + block.snapshot_step.offset);
  *step = SnapshotStepAfter(tables.work[b].task, *step, tables.groups[block.group].t);
}

// See RecordSnapshots(). Sets Tables::async_divisors even for a block whose states this step does not update,
// because roots of several blocks are computed together (Engine::RootRun), with the divisor of the first block.
struct RecordSnapshotsBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    cta.ForEach(batch.block_count, [&](int64_t i) {
      const int32_t b = batch.blocks[i];
      const DeviceBlock& block = tables.blocks[b];
      const DeviceGroup& group = tables.groups[block.group];
      if (group.active == 0 || tables.tasks[b] != RootTask::kTakeSnapshot) return;
      tables.async_divisors[b] = group.factor_correction;
      if (!UpdatesStates(tables, b)) return;
      const auto* const flags = reinterpret_cast<const int32_t*>(tables.state_out + block.diagonal.offset);
      for (int k = 0; k < block.factors; ++k) tables.async_flags[block.root_at[k]] = flags[k];
      RecordTask(tables, b);
    });
  }
};

// Sets the statuses and the snapshot_step of blocks whose roots this step has refreshed.
struct MarkRootsBody {
  Tables tables;
  BatchTables batch;
  int64_t ticket;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    cta.ForEach(batch.block_count, [&](int64_t i) {
      const int32_t b = batch.blocks[i];
      const DeviceBlock& block = tables.blocks[b];
      if (!UpdatesStates(tables, b)) return;
      const RootTask task = tables.work[b].task;
      if (!Refreshes(task)) return;
      for (int k = 0; k < block.factors; ++k) {
        RootStatus& status = tables.roots[block.root_at[k]];
        if (task == RootTask::kAdoptDeviceRoots) status = tables.async_roots[block.root_at[k]];
        status.ticket = ticket;
      }
      RecordTask(tables, b);
    });
  }
};

struct FindFlagsBody {
  Tables tables;
  const int32_t** flags;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    cta.ForEach(tables.block_count, [&](int64_t b) {
      const DeviceBlock& block = tables.blocks[b];
      if (block.owned == 0 || !block.diagonal.present()) return;
      const auto* const own = reinterpret_cast<const int32_t*>(tables.state_out + block.diagonal.offset);
      for (int k = 0; k < block.factors; ++k) flags[block.root_at[k]] = own + k;
    });
  }
};

}  // namespace

cudaError_t LoadGradients(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation) {
  return LaunchOver<LoadGradientBody>(stream, batch.tile_count, tables, batch, computation);
}

cudaError_t MoveDim(cudaStream_t stream, Dtype computation, const void* from, void* to, int64_t count, int64_t stride,
                    const Unfolding& unfolding, bool back) {
  const int64_t tiles = TileCount(unfolding.before * unfolding.d * unfolding.after);
  if (computation == Dtype::kF64) {
    return Launch(stream, count * tiles,
                  MoveDimBody<double>{static_cast<const double*>(from), static_cast<double*>(to), stride, tiles,
                                      unfolding, back ? 1 : 0});
  }
  return Launch(stream, count * tiles,
                MoveDimBody<float>{static_cast<const float*>(from), static_cast<float*>(to), stride, tiles, unfolding,
                                   back ? 1 : 0});
}

cudaError_t UpdateFactors(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation) {
  return LaunchOver<UpdateFactorBody>(stream, batch.matrix_tile_count, tables, batch, computation);
}

cudaError_t LoadInverseRoots(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation) {
  return LaunchOver<LoadInverseRootBody>(stream, batch.matrix_tile_count, tables, batch, computation);
}

cudaError_t UpdateWhitenedFactors(cudaStream_t stream, const Tables& tables, const BatchTables& batch,
                                  Dtype computation, int32_t k) {
  cudaError_t error = LaunchOver<SquareWhitenedGradientBody>(stream, batch.tile_count, tables, batch, computation, k);
  if (error == cudaSuccess) error = Launch(stream, batch.block_count, CheckWhitenedGradientBody{tables, batch, k});
  if (error != cudaSuccess) return error;
  return LaunchOver<UpdateWhitenedFactorBody>(stream, batch.matrix_tile_count, tables, batch, computation, k);
}

cudaError_t RecordSnapshots(cudaStream_t stream, const Tables& tables, const BatchTables& batch) {
  return Launch(stream, 1, RecordSnapshotsBody{tables, batch});
}

cudaError_t StoreRoots(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation,
                       int64_t ticket) {
  const cudaError_t error = Launch(stream, 1, MarkRootsBody{tables, batch, ticket});
  if (error != cudaSuccess) return error;
  return LaunchOver<StoreRootBody>(stream, batch.matrix_tile_count, tables, batch, computation);
}

cudaError_t FindFlags(cudaStream_t stream, const Tables& tables, const int32_t** flags) {
  return Launch(stream, 1, FindFlagsBody{tables, flags});
}

}  // namespace shampoo::cuda
