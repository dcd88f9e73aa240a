// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/backend/cuda/plugin/kernel_tables.h"

// The kernels of the second moments of method muon. MuonDirection (core/backend/cpu) does the same on the CPU.
namespace shampoo::cuda {

struct MuonArgs {
  Tables tables;
  BatchTables batch;
  double* divisors;  // one vector for each block of the batch
  Dtype computation;
};

// Updates the second moments of the orthogonalized directions in batch.second, and divides the directions by the
// square roots of the moments. lines: the largest number of rows or of groups of columns of a block.
cudaError_t DivideByMoments(cudaStream_t stream, const MuonArgs& args, int64_t lines);
// The number of columns in a group of columns, which one CTA processes.
inline constexpr int64_t kColumnsOfLine = 256;

}  // namespace shampoo::cuda
