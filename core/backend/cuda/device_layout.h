// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/backend/cuda/block_batches.h"
#include "core/backend/cuda/interface.h"

namespace shampoo::cuda {

// The number of streams in addition to the caller's stream. Products of different shapes run in parallel on these
// streams and the caller's stream.
inline constexpr int kSideStreams = 3;
// Limits of the size of cuBLAS's workspace on each stream. The maximum is NVIDIA's recommendation for its largest
// devices. Small products need less.
inline constexpr int64_t kMinBlasBytes = int64_t{1} << 20;
inline constexpr int64_t kMaxBlasBytes = int64_t{32} << 20;

// Layout of the device memory that steps need in addition to the state and the exchange buffers. This memory is one
// allocation, and most members are offsets in it, in bytes. Most offsets have the name of a pointer in Tables or
// BatchTables (plugin/kernel_tables.h). Sizes that the host does not know exactly are upper bounds.
struct DeviceLayout {
  int64_t blocks, params, buffers, groups, initial, work, state, roots, flags;
  int64_t scan_tiles, scanned, hash_tiles, tile_hashes, hashes;
  int64_t slices, series, slice_tiles;  // with shard_mode=gather
  int64_t roundings;                    // with stochastic rounding
  int64_t batch_blocks, tiles, matrix_tiles, scanned_factors, sums, products, fits;
  int64_t control_sums, norm_rows, row_tiles;  // with norm_control or update_floor
  int64_t first, second, matrices;
  int64_t tasks;             // with async roots or a method that works in eigenbases
  int64_t blas, blas_bytes;  // blas_bytes: the size for each handle of cuBLAS
  int64_t root_workspace, root_workspace_bytes;
  // Memory for the computation of async roots: the matrices of all batches for which HasAsyncRoots() is true, tables of
  // other inputs and of results, and the workspaces of the solvers. Empty if no group has root_async.
  struct AsyncLayout {
    int64_t matrices, divisors, flags, flag_addresses, statuses, active, blas, root_workspace;
  } async;
  // Memory for methods that work in eigenbases (soap, kl_shampoo): records and vectors (`work` to `orders`), buffers of
  // tensors (`third` to `moved`), and buffers of matrices (`bases` to `rotated`). `moved` is empty if no block has more
  // than two dims. `rotated` is empty if basis_tolerance is 0 in all groups.
  struct BasisLayout {
    int64_t work, members, sums, orders;
    int64_t third, fourth, moved;
    int64_t bases, rotations, products, rotated;
  } basis;
  // Memory for directions that are orthogonalized, with method muon or with the key soap_post:
  // - grams: the buffer of Gram matrices (see BlockBatch::gram_bytes).
  // - third: a third buffer of tensors. Empty unless dual_norm_scale is true or IterationDtypeOf() is bfloat16.
  // - wide: two float64 tensors for each tensor of a batch, if float32 directions are orthogonalized in float64.
  // - divisors: the numbers by which rows or columns are divided, with second_moment=row or second_moment=short.
  struct OrthogonalLayout {
    int64_t grams, third, wide, divisors;
  } orthogonal;
  int64_t bytes;

  int64_t root_count;
  int64_t matrix_tile_count;
  std::vector<BlockBatch> batches;
};

// The numbers of rows that the device tables of a plan need, and whether some tables are needed at all.
struct PlanCounts {
  int64_t blocks, params, groups, scan_tiles;
  bool verifies = false;  // verify_replicas is used
  bool rounds = false;    // some group rounds stochastically
  int64_t hash_tiles = 0;
  // The following members are 0 without shard_mode=gather.
  int64_t whole_blocks = 0;  // blocks that have their own row in the table of buffers
  int64_t slices = 0, series = 0, slice_tiles = 0;
};

// Returns how many NormControlRow records a step needs for a block: 0 if the step does not control the block's norm.
int64_t NormRowsOf(const Block& block, const DeviceSettings& group);

// Returns whether refreshes of this group compare eigenbases with their predecessors (basis_tolerance).
bool ComparesBases(const DeviceSettings& group);

// Returns whether some block of the batch has async roots.
bool HasAsyncRoots(const BlockBatch& batch, const DeviceSettings* groups);

// Returns the number of cuBLAS handles that steps need: one for each shape group of the batch that has the most shape
// groups, but at most 1 + kSideStreams.
size_t HandleCount(const std::vector<BlockBatch>& batches);

// Returns the layout for the batches of the blocks that this rank updates.
//
// least_root_bytes: a lower limit of root_workspace_bytes, for a solver that needs more than this function estimates.
DeviceLayout LayOutDevice(std::vector<BlockBatch> batches, const DeviceSettings* groups, const PlanCounts& counts,
                          int64_t least_root_bytes);

}  // namespace shampoo::cuda
