// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/backend/cuda/block_batches.h"
#include "core/backend/cuda/device_tables.h"
#include "core/backend/cuda/interface.h"
#include "core/backend/cuda/plugin/cta.h"

// Arguments of kernels: pointers to tables, and a few numbers. An engine (interface.h) makes the tables when it is
// created. They are in device memory, unless a comment says "in host memory".
namespace shampoo::cuda {

// Tables of an engine. Most kernels of a step receive them.
struct Tables {
  const DeviceBlock* blocks;
  const DeviceParam* params;
  Buffers* buffers;  // by parameter; with shard_mode=gather, one row for each block follows (DeviceBlock::buffers)
  // One row for each group, then a second row for each group. In a group with method `muon`, the second row is for the
  // blocks that `adam` updates. For other methods, the second row is not used.
  DeviceGroup* groups;
  BlockWork* work;  // by block
  StepState* state;
  RootStatus* roots;        // in the order of DeviceBlock::root_at
  HostReport* host_report;  // in host memory
  RootStatus* host_roots;   // in host memory, in the order of the plan
  int64_t block_count;
  int32_t group_count;
  const char* state_in;             // the arena that the current step reads
  char* state_out;                  // the arena that the current step writes; may be state_in
  const DeviceRounding* roundings;  // by block; nullptr: all groups round to nearest
  uint64_t rounding_seed;
  // Tiles of all blocks or, with shard_mode=gather, of the blocks that this rank owns.
  const DeviceTile* scan_tiles;
  int64_t scan_tile_count;
  double* scanned;  // two numbers for each tile: the largest magnitudes of its gradient and of its parameter
  // Tiles of the matrices of all batches.
  const DeviceMatrixTile* matrix_tiles;
  int64_t matrix_tile_count;
  uint64_t* scanned_factors;  // by matrix tile: PatternOf() of the largest magnitude in this tile of a factor matrix
  // Tables of async roots; nullptr if this rank has no async roots.
  double* async_divisors;   // by block: like BlockWork::divisor
  int32_t* async_flags;     // by root: 1 if RootSpec::may_be_diagonal is true for the root, otherwise 0
  RootStatus* async_roots;  // by root
  // `tasks` and `reported_block_counters` are nullptr if this rank updates no block with root_async or with a method
  // that works in eigenbases.
  RootTask* tasks;                   // by block: the tasks of the last call of SetTasks()
  int64_t* reported_block_counters;  // by block, in host memory
  char* exchange_buffers;            // nullptr with one rank
  int32_t exchange_params;           // as in PlanView
  int32_t replica_rank, replica_world;
  // Hashes of the parameters that this rank holds; nullptr if verify_replicas is 0.
  const DeviceTile* hash_tiles;  // DeviceTile::block is the index of a parameter
  int64_t hash_tile_count;
  uint64_t* tile_hashes;      // by tile in hash_tiles
  uint64_t* hashes;           // by parameter
  uint64_t* reported_hashes;  // by parameter, in host memory: from the last comparison that found a difference
  int64_t verify_replicas;
  // The next members are for the exchange in which shard ranks agree on a step (agree.cu). With one shard rank,
  // `shard_segments` and `counted_steps` are nullptr.
  char* shard_segments;    // by shard rank: a ShardHeader, a step number per group, a GradientOnShard per parameter
  int64_t* counted_steps;  // by group, in host memory: see Table::counted_steps
  int64_t shard_segment_bytes;
  int32_t shard_rank, shard_world;
  int32_t param_count;
  int32_t gathers;  // 1: shard_mode is gather. 0: the next three tables are empty
  const DeviceSlice* slices;
  const RunSeries* series;
  const DeviceTile* slice_tiles;  // DeviceTile::block is the index of a slice
};

// Tables of a batch (block_batches.h).
struct BatchTables {
  const int32_t* blocks;  // by item of the batch: index of its block in the plan
  int64_t block_count;
  const DeviceTile* tiles;
  int64_t tile_count;
  const DeviceMatrixTile* matrix_tiles;
  int64_t matrix_tile_count;
  void* first;  // `first` and `second`: two buffers of tensors
  void* second;
  void* matrices;
  void* async_matrices;  // buffer of matrices for async roots; nullptr if the batch has none
  // `sums` has two numbers for each tile: |D|^2 and |P|^2, where D is the direction of the grafting method. `products`
  // has one number for each tile. With dual_norm_scale, it is the inner product of the filtered gradient and P. Some
  // kernels write other numbers to these arrays, which the next kernel reads.
  double* sums;
  double* products;
  int32_t* fits;  // by tile: 1 if the results of the update fit their dtypes
  // Used with norm_control or update_floor. norm_rows is nullptr if no block of the batch uses these keys.
  ControlSums* control_sums;  // by tile
  NormControlRow* norm_rows;  // of all blocks of the batch
  // With update_floor_rows: one tile for each row. DeviceTile::index is the index of the row in the block.
  const DeviceTile* row_tiles;
  int64_t row_tile_count;
  int32_t has_iterates;  // 1: a block of the batch uses the key averaging
  int32_t has_averages;  // 1: a block of the batch uses the key averaging or weight_ema
};

}  // namespace shampoo::cuda
