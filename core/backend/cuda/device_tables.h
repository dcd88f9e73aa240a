// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/backend/cuda/interface.h"
#include "core/rules/schedule.h"
#include "core/rules/update.h"

// The tables that kernels read, in memory of the device. The plan needs their sizes and is made without the plugin, so
// that nothing here depends on CUDA.
namespace shampoo::cuda {

// Returns the bytes of a table.
template <typename Row>
constexpr int64_t TableBytes(int64_t rows) {
  return rows * static_cast<int64_t>(sizeof(Row));
}

struct DeviceBlock {
  int64_t elements;
  int64_t shape[kMaxDims];
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
  StateSlot diagonal, filtered_grad, grafting, momentum;
  int64_t at;                   // in the tensors of its batch
  int64_t matrix_at[kMaxDims];  // in the matrices of its batch
  int64_t first_tile;           // in the tiles of its batch: partial sums
  int64_t first_scan_tile;      // in the tiles of all blocks
  int64_t tiles;
  int32_t direction_in_second;  // the contracted gradient ends in the second buffer of tensors
  int64_t root_at[kMaxDims];    // in the roots of the device: alike in a class lie one after another
  int64_t plan_root;            // of its factor matrices, in the order of the plan
  int64_t exchange_at;          // in the gather buffer, in bytes; -1: one rank
  Dtype exchange_dtype;
  int32_t bucket;

  constexpr int factor_count() const { return factors; }
};

struct DeviceParam {
  Dtype param_dtype, grad_dtype, out_dtype, copy_dtype;
};

// One step of one group. Of a group that is not active only the settings count.
struct DeviceGroup : StepScalars {
  GroupSettings settings;
  GroupSchedule schedule;
  int32_t active;
};

// How it is found out whether the direction of a block can be applied.
enum class FitCheckMode : int32_t {
  kNone,     // by its size alone
  kByBound,  // it is small: by a bound on what decay and momentum add, and exactly where that does not suffice
  kExact,    // element by element
};

// What a step knows of a block.
struct BlockWork {
  Rejection rejection;
  int32_t dim;
  int32_t state_at_fault;
  RootTask task;  // of a block that is stepped
  int64_t element;
  double value;
  double divisor;          // of the factor matrices whose roots the step computes
  int32_t go;              // its states are written
  int32_t update_skipped;  // its direction cannot be used: parameter and momentum stay
  FitCheckMode check;
  DirectionRule rule;
  DirectionScale scale;
};

struct StepState {
  int32_t go;        // blocks are stepped
  int32_t rejected;  // nothing is written, outputs neither
  // 1: the refusal is counted; 2: the other ranks know of it, too, from the first exchange of this step or from before.
  int32_t counted;
  Code failure;                     // of this rank's host
  int64_t acknowledged_rejections;  // see StepArgs
  int64_t endings;                  // of steps
  StepReport report;
};

// A report in host memory, which the host may read while it is written: it is complete if the two numbers are equal.
struct HostReport {
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

}  // namespace shampoo::cuda
