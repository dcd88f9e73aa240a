// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/backend/cuda/block_batches.h"
#include "core/backend/cuda/device_tables.h"
#include "core/backend/cuda/interface.h"
#include "core/backend/cuda/plugin/cta.h"

// What kernels know: tables in memory of the device, made at create, and the numbers of the step under way.
namespace shampoo::cuda {

// Handed to every kernel.
struct Tables {
  const DeviceBlock* blocks;
  const DeviceParam* params;
  Buffers* buffers;  // by parameter
  DeviceGroup* groups;
  BlockWork* work;  // by block
  StepState* state;
  RootStatus* roots;
  HostReport* host_report;
  RootStatus* host_roots;  // in the order of the plan
  int64_t block_count;
  int32_t group_count;
  const char* state_in;
  char* state_out;
  // Of all blocks.
  const DeviceTile* scan_tiles;
  int64_t scan_tile_count;
  double* scanned;  // by tile: the largest magnitudes of gradient and parameter, one after the other
  // Of roots that are computed while steps go on; nullptr where no group has root_async.
  double* async_divisors;            // by block
  int32_t* async_flags;              // by root: may_be_diagonal
  RootStatus* async_roots;           // by root
  RootTask* tasks;                   // by block: as the host has them in this step, where it has any
  int64_t* reported_snapshot_steps;  // by block, in memory of the host
  // Several ranks; nullptr with one.
  char* gathered;
  int32_t exchange_params;
  int32_t replica_rank, replica_world;
};

// Of a batch.
struct BatchTables {
  const int32_t* blocks;  // of the plan, by item
  int64_t block_count;
  const DeviceTile* tiles;
  int64_t tile_count;
  const DeviceMatrixTile* matrix_tiles;
  int64_t matrix_tile_count;
  void* first;  // buffers of tensors
  void* second;
  void* matrices;
  void* async_matrices;  // the same for roots that are computed while steps go on
  double* sums;          // by tile: |D|^2 and |P|^2, one after the other
  int32_t* fits;         // by tile
};

}  // namespace shampoo::cuda
