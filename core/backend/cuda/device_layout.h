// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/backend/cuda/block_batches.h"
#include "core/backend/cuda/interface.h"

namespace shampoo::cuda {

// Streams beside the caller's, on which products of other shapes run side by side.
inline constexpr int kSideStreams = 3;
// Workspace of cuBLAS on each of them: the most is what NVIDIA recommends for its largest devices, and small products
// have no use for it.
inline constexpr int64_t kMinBlasBytes = int64_t{1} << 20;
inline constexpr int64_t kMaxBlasBytes = int64_t{32} << 20;

// Where everything that a step needs on the device, beside the state, lies in one piece of memory: offsets in bytes.
// Sizes of tables are upper bounds where the host does not know them exactly.
struct DeviceLayout {
  int64_t blocks, params, buffers, groups, initial, work, state, roots, flags;
  int64_t scan_tiles, scanned;
  int64_t batch_blocks, tiles, matrix_tiles, sums, fits;
  int64_t first, second, matrices;
  int64_t blas, blas_bytes;  // so many for each handle
  int64_t root_workspace, root_workspace_bytes;
  // For roots that are computed while steps go on: the matrices of the batches of which some are, one after the other,
  // what they are computed with, what came out. All are empty where no group has root_async.
  struct AsyncLayout {
    int64_t matrices, tasks, divisors, flags, flag_addresses, statuses, active, blas, root_workspace;
  } async;
  int64_t gathered;
  int64_t bytes;

  int64_t root_count;
  std::vector<BlockBatch> batches;
};

// Of a whole plan.
struct PlanCounts {
  int64_t blocks, params, groups, scan_tiles;
};

// Whether roots of some of its blocks are computed while steps go on.
bool HasAsyncRoots(const BlockBatch& batch, const DeviceSettings* groups);

// The handles of cuBLAS and cuSOLVER that a step has use for: one for each shape, up to one for each stream.
size_t HandleCount(const std::vector<BlockBatch>& batches);

// batches: of the blocks that this rank steps. gathered_bytes: of the exchange between replicas, 0 with one.
// least_root_bytes: of memory for the roots, where more is known of it than its bound.
DeviceLayout LayOutDevice(std::vector<BlockBatch> batches, const DeviceSettings* groups, const PlanCounts& counts,
                          int64_t gathered_bytes, int64_t least_root_bytes);

}  // namespace shampoo::cuda
