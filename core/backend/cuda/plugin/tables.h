// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/backend/cuda/interface.h"
#include "core/backend/cuda/plugin/cta.h"
#include "core/backend/cuda/table_bytes.h"
#include "core/backend/cuda/waves.h"
#include "core/rules/step_program.h"

// What kernels know: tables in memory of the device, made at create, and the numbers of the step under way.
namespace shampoo::cuda {

struct DeviceBlock {
  int64_t elements;
  int64_t dims[kMaxDims];
  int64_t stride[kMaxDims];  // in the caller's buffers
  int64_t offset;
  int32_t order;
  int32_t factors;  // order, or 0: follows the grafting method alone
  int32_t param;
  int32_t group;
  int32_t owned;
  int32_t dense;  // its elements are neighbours in the caller's buffers
  Dtype computation;
  int64_t phase;
  StateSlot factor[kMaxDims];
  StateSlot inverse[kMaxDims];
  StateSlot snapshot[kMaxDims];
  StateSlot snapshot_step;
  StateSlot diagonal, filtered, grafting, momentum;
  int64_t at;                   // in the tensors of its wave
  int64_t matrix_at[kMaxDims];  // in the matrices of its wave
  int64_t first_tile;           // in the tiles of its wave: partial sums
  int64_t first_scan_tile;      // in the tiles of all blocks
  int64_t tiles;
  int32_t direction_in_second;  // the contracted gradient ends in the second buffer of tensors
  int64_t root_at[kMaxDims];    // in the roots of the device: alike in a class lie one after another
  int64_t plan_root;            // of its factor matrices, in the order of the plan
  int64_t exchange_at;          // in the gather buffer, in bytes; -1: one rank
  Dtype exchange_dtype;
  int32_t bucket;
};

struct DeviceParam {
  Dtype param_dtype, grad_dtype, out_dtype, copy_dtype;
};

// One step of one group with every scalar worked out, as StepProgram on the host.
struct GroupScalars {
  double gradient_scale, coupled_decay, factor_keep, factor_add, moment_keep, moment_add, factor_correction;
  double filter_keep, filter_correction, moment_correction, grafting_epsilon, decoupled_decay, momentum, lr;
  double norm_guard;
  int64_t t;
  GroupSchedule schedule;
  int32_t active;
  int32_t nesterov;
  int32_t corrects_factors;  // factor_correction is that of step t; snapshots have that of their own
  Grafting grafting;
  OnNonFinite on_nonfinite;
  Output output;
};

// How it is found out whether the direction of a block can be applied.
enum class FitCheck : int32_t {
  kNone,     // by its size alone
  kByBound,  // it is small: by a bound on what decay and momentum add, and exactly where that does not suffice
  kExact,    // element by element
};

// What a step knows of a block.
struct BlockWork {
  Refusal refusal;
  int32_t dim;
  int32_t state_at_fault;
  RootTask task;  // of a block that is stepped
  int64_t element;
  double value;
  double divisor;  // of the factor matrices whose roots the step computes
  int32_t go;      // its states are written
  int32_t stands;  // its direction cannot be used: parameter and momentum stay
  FitCheck check;
  DirectionRule rule;
  double down, up;  // the direction is P * down * up
};

struct StepState {
  int32_t go;       // blocks are stepped
  int32_t refused;  // nothing is written, outputs neither
  int32_t counted;  // 1: that it was refused; 2: and that is told, by this step's first exchange or before it
  Code failure;     // of this rank's host
  int64_t told;     // refusals that have been raised
  int64_t endings;  // of steps
  StepReport report;
};

// In memory of the host, which may look at it while it is written: whole where the two numbers are equal.
struct ToldReport {
  int64_t begun;
  StepReport report;
  int64_t ended;
};

struct DeviceTile {
  int32_t block;
  int32_t part;
};

struct DeviceMatrixTile {
  int32_t block;
  int16_t dim;
  uint16_t row, column;  // of tiles, row >= column
};

static_assert(sizeof(DeviceBlock) == kDeviceBlockBytes && sizeof(DeviceParam) == kDeviceParamBytes);
static_assert(sizeof(GroupScalars) == kGroupScalarsBytes && sizeof(BlockWork) == kBlockWorkBytes);
static_assert(sizeof(StepState) == kStepStateBytes && sizeof(DeviceTile) == kDeviceTileBytes);
static_assert(sizeof(DeviceMatrixTile) == kDeviceMatrixTileBytes);

// Handed to every kernel.
struct Tables {
  const DeviceBlock* blocks;
  const DeviceParam* params;
  Buffers* buffers;  // by parameter
  GroupScalars* groups;
  BlockWork* work;  // by block
  StepState* state;
  RootStatus* roots;
  ToldReport* told;
  RootStatus* told_roots;  // in the order of the plan
  int64_t block_count;
  int32_t group_count;
  const char* state_in;
  char* state_out;
  // Of all blocks.
  const DeviceTile* scan_tiles;
  int64_t scan_tile_count;
  double* scanned;  // by tile: the largest magnitudes of gradient and parameter, one after the other
  // Of roots that are computed while steps go on; nullptr where no group has root_async.
  double* ahead_divisors;            // by block
  int32_t* ahead_flags;              // by root: may_be_diagonal
  RootStatus* ahead_roots;           // by root
  RootTask* tasks;                   // by block: as the host has them in this step, where it has any
  int64_t* reported_snapshot_steps;  // by block, in memory of the host
  // Several ranks; nullptr with one.
  char* gathered;
  int32_t exchange_params;
  int32_t replica_rank, replica_world;
};

// Of a wave.
struct WaveTables {
  const int32_t* blocks;  // of the plan, by item
  int64_t block_count;
  const DeviceTile* tiles;
  int64_t tile_count;
  const DeviceMatrixTile* matrix_tiles;
  int64_t matrix_tile_count;
  void* first;  // buffers of tensors
  void* second;
  void* matrices;
  void* ahead;    // the same for roots that are computed while steps go on
  double* sums;   // by tile: |D|^2 and |P|^2, one after the other
  int32_t* fits;  // by tile
};

}  // namespace shampoo::cuda
