// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/backend/cuda/interface.h"
#include "core/plan/element_positions.h"
#include "core/rules/averages.h"
#include "core/rules/norms.h"
#include "core/rules/schedule.h"
#include "core/rules/update.h"

// Rows of tables in device memory. The structs Tables and BatchTables (plugin/kernel_tables.h) have pointers to these
// tables. The library needs the sizes of the tables to make a plan, even on a machine without CUDA. Therefore this file
// does not include headers of CUDA.
namespace shampoo::cuda {

// Returns the bytes of a table.
template <typename Row>
constexpr int64_t TableBytes(int64_t rows) {
  return rows * static_cast<int64_t>(sizeof(Row));
}

// The description of one block of the plan.
struct DeviceBlock {
  int64_t elements;
  int64_t shape[kMaxDims];
  int64_t stride[kMaxDims];  // in the caller's buffers, in elements
  int64_t offset;            // position of the first element in the caller's buffers
  int32_t order;
  int32_t factors;  // the order if the block has factor matrices, otherwise 0
  int32_t param;
  int32_t group;
  // Index of the row of Tables::groups with the scalars of the block, normally the row of its group. In a group with
  // method muon, the blocks that adam updates use a second row of the group. Second rows follow the first rows of all
  // groups.
  int32_t scalars;
  int32_t owned;  // 1: this rank updates the block
  int32_t dense;  // 1: the elements of the block are contiguous in the caller's buffers
  Dtype computation;
  int64_t phase;
  int64_t matrix_rows, matrix_columns;  // size, as a matrix, of the tensor to which the block belongs; see Block
  int32_t rows_are_contiguous;          // 1: the rows of this matrix are contiguous in the row-major order of the block
  // The members from `orthogonalized` to `direction_moment` are used with method muon or with the key soap_post.
  int32_t orthogonalized;
  Dtype iteration_dtype;  // the dtype of the iteration that orthogonalizes the direction
  // Used if iteration_dtype is the computation dtype. 1: the first input of the iteration is in BatchTables::second.
  int32_t starts_in_second;
  NsNorm ns_norm;  // before the iteration, the direction is divided by its norm of this kind and by ns_divisor
  double ns_divisor;
  DirectionMoment moment_of_direction;  // the key second_moment
  // Used with second_moment=row and second_moment=short. 1: each mean is over a stored row. 0: each mean is over a
  // stored column.
  int32_t means_are_of_stored_rows;
  StateSlot direction_moment;
  // With norm_control or update_floor: the number of elements of BatchTables::norm_rows for this block, and the index
  // of the first of these elements.
  int64_t norm_rows, norm_row_at;
  StateSlot factor[kMaxDims];
  StateSlot inverse[kMaxDims];
  StateSlot snapshot[kMaxDims];
  StateSlot snapshot_step;
  StateSlot diagonal, filtered_grad, v, momentum;
  // States of the methods that work in eigenbases (soap, kl_shampoo).
  StateSlot basis[kMaxDims];
  StateSlot kl_scale[kMaxDims];
  StateSlot gradient_count;
  StateSlot second_moment, grafting;  // `v` equals second_moment if second_moment is present, otherwise grafting
  StateSlot radius;
  StateSlot iterate_offset, lr_sum, ema_offset;
  int64_t at;                   // index of the block's first element in the tensors of its batch
  int64_t matrix_at[kMaxDims];  // by dim: index of the matrix's first element in the matrices of the batch
  int64_t vector_at[kMaxDims];  // by dim: index of the vector's first element in the vectors of the batch
  int64_t first_tile;           // index of its first tile in the tiles and in the partial sums of its batch
  int64_t first_scan_tile;      // index of its first tile in Tables::scan_tiles
  int64_t first_matrix_tile;    // index of its first tile in Tables::matrix_tiles
  int64_t tiles;
  // 1: if BlockWork::rule is kPrecondition, kernels first write the direction to BatchTables::second. In all other
  // cases, kernels first write it to BatchTables::first. See IsInSecond() (plugin/block_tile.h).
  int32_t direction_in_second;
  int64_t root_at[kMaxDims];  // by dim: index in Tables::roots; the roots of a shape group are consecutive
  int64_t plan_root;          // index of its first root in the order of the plan
  int64_t exchange_at;        // offset of its update in the exchange buffers, in bytes; -1: there is no exchange
  int32_t buffers;            // index of its gradient, parameter and outputs in Tables::buffers
  // Offsets of the whole block's gradient and parameter in the exchange buffers, if the block is gathered on this rank.
  int64_t gradient_at, param_at;
  Dtype exchange_dtype;
  int32_t bucket;

  constexpr int factor_count() const { return factors; }
  constexpr bool is_rotated() const { return factors > 0 && gradient_count.present(); }
  constexpr const StateSlot& moment() const { return v; }
  constexpr const StateSlot& average_offset() const { return ema_offset.present() ? ema_offset : iterate_offset; }
};

// How a step rounds elements of a block when it stores the elements (core/rules/rounding.h).
struct DeviceRounding {
  ElementPositions positions;
  int32_t rounds_states;  // 1: state_rounding=stochastic
  int32_t rounds_param;   // 1: param_rounding=stochastic
};

// The values with which the states of a group start.
struct InitialStates {
  InitialInverse inverse;
  double kl_scale;
};

struct DeviceParam {
  int64_t elements;
  int32_t group;
  Dtype param_dtype, grad_dtype, out_dtype, copy_dtype;
  int64_t first_hash_tile, hash_tiles;  // range of its tiles in Tables::hash_tiles; empty if verify_replicas is 0
};

// One step of one group. If the group is not active, only `settings`, `lr`, `gradient_scale`, `output` and
// `has_gradients` are valid, and has_gradients is 0.
struct DeviceGroup : StepScalars {
  GroupSettings settings;
  GroupSchedule schedule;
  int32_t active;  // 1: the step increases the step counter of the group
  // In an active group: 0 if no parameter of the group has a gradient. The step then only increases the counter
  // (count_empty_steps). With shard_mode=local, only the gradients of this rank are considered. With shard_mode=gather,
  // the gradients of all ranks are considered.
  int32_t has_gradients;
  int32_t is_prepared;  // 1: the enqueued kernels are correct for the step number t. Not used if has_gradients is 0
};

// Intermediate results of the current step for one block. The members that StepReport has, too, have the same meaning.
struct BlockWork {
  Rejection rejection;
  int32_t dim;
  int32_t state_at_fault;
  RootTask task;  // valid if `go` is 1
  int64_t element;
  double value;
  double divisor;           // the factor matrices are divided by this number before their roots are computed
  int32_t go;               // 1: the step writes the states of the block
  int32_t update_skipped;   // 1: the direction cannot be used, so parameter and momentum do not change
  int32_t states_fit;       // 0: a state would overflow or CanControl() is false, so the update is skipped
  int32_t keeps_parameter;  // 1: the gradient only initializes states of the block; the parameter does not change
  // 1: P has been replaced by the old parameter minus the new one, for norm_control, update_floor or averaging.
  int32_t is_difference;
  double radius;                  // the norm that norm_control=hyperball maintains
  NormSums control;               // with norm_control or update_floor: sums over the whole block
  double square, product, ratio;  // see NormControlStep
  AveragingStep averaging;        // with averaging: the coefficients of this step
  DirectionScale averaged_scale;  // with averaging: the scale of P before P was replaced by a difference
  // With method muon or the key soap_post: before the iteration that orthogonalizes the direction, the direction is
  // divided by 2^ns_exponent and multiplied by ns_factor.
  int32_t ns_exponent;
  double ns_factor;
  double orthogonal_norm;  // with the key second_moment: the norm of the direction before this key changes it
  FitCheckMode check;
  DirectionRule rule;
  DirectionScale scale;
};

// How a method that works in eigenbases updates a block in the current step. Valid if BlockWork::go is 1.
struct BasisWork {
  int64_t update;           // the number of the update of the block; 0: the gradient only initializes the block
  int32_t is_first;         // 1: basis_order=after, and the gradient is the block's first
  int32_t updates_factors;  // see StepScalars
  double factor_decay, factor_weight, eigenvalue_decay;
  double filter_correction, moment_correction, moment_epsilon;
  double divisor;  // in a refresh, the factor matrices are divided by this number
};

// The computation of the eigenbasis of one factor matrix.
struct BasisMember {
  RootFailure failure;
  int32_t diagonal;    // as in MatrixFacts
  int32_t identity;    // 1: the basis is the identity
  int32_t is_reached;  // 1: the basis is accurate enough, so the remaining iterations do not change it
  int32_t is_kept;     // 1: the previous basis remains in use
};

// Intermediate results of the current step that do not belong to a single block.
struct StepState {
  int32_t go;        // 1: the step updates blocks
  int32_t rejected;  // 1: the step is rejected and writes nothing, not even outputs
  // 0: this rank makes a step. 1: it exports averages instead (StepArgs::exports). 2: it exports averages, and some
  // other rank makes a step.
  int32_t exports;
  // 0: no rejection has been counted for this step. 1: the report contains the rejection of this step. 2: the other
  // ranks know the rejection, too, either from the first exchange of this step, or from an earlier step if this step is
  // stale (StepArgs::acknowledged_rejections).
  int32_t counted;
  Code failure;                     // StepArgs::failure
  int64_t acknowledged_rejections;  // see StepArgs
  int64_t endings;                  // number of steps and exports that have ended
  StepReport report;
};

// A report in host memory. The host may read it while the device writes it; it is complete if `begun` and `ended` are
// equal.
struct HostReport {
  int64_t begun;
  StepReport report;
  int64_t ended;
};

struct DeviceTile {
  int32_t block;
  int32_t index;  // within the block
};

// A slice: the elements of a block that one shard rank holds, with shard_mode=gather. The table has a row for each
// slice that this rank holds, and a row for each slice of each block that this rank owns. Offsets are in the exchange
// buffers, in bytes.
struct DeviceSlice {
  int32_t block;
  int32_t collected;  // 0: no rank sends the elements to the owner, because the owner already has them
  int64_t elements;
  int64_t first_series, series_count;  // range in Tables::series
  int64_t gradient_at, param_at;       // in the exchange in which the block is collected
  // For a slice of an owned block: where the exchange between shards that delivers updates reads this update. For a
  // slice that this rank holds: where the last exchange writes this update. With several replicas, the last exchange is
  // the one between replicas.
  int64_t update_at;
};

// Sums over one tile of a block with norm_control or update_floor.
struct ControlSums {
  NormSums of_tile;  // 0 with update_floor_rows, because NormControlRow then has the sums
  double param = 0;  // |W|^2 of the tile, if norm_control=hyperball and the radius is not known yet
};

// A tile of the lower triangle of the matrix that belongs to one dim of a block.
struct DeviceMatrixTile {
  int32_t block;
  int16_t dim;
  uint16_t row, column;  // in tiles; row >= column
};

}  // namespace shampoo::cuda
