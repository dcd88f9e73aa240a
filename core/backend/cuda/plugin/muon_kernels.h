// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/backend/cuda/plugin/kernel_tables.h"

// Kernels for the key second_moment: they divide the directions of method muon by the square roots of second moments.
// MuonDirection (core/backend/cpu) does the same on the CPU.
namespace shampoo::cuda {

struct MuonArgs {
  Tables tables;
  BatchTables batch;
  double* divisors;  // from DeviceBlock::vector_at[0] on: the divisors of the rows or of the columns of the block
  Dtype computation;
};

// batch.second contains the orthogonalized directions. Updates their second moments, and divides the directions by
// sqrt(second moment) + epsilon. lines: the number of CTAs per block that update moments of rows or columns. For every
// block, it must be at least the number of rows, and at least the number of columns / kColumnsOfLine, rounded up.
cudaError_t DivideByMoments(cudaStream_t stream, const MuonArgs& args, int64_t lines);
// One CTA updates the moment of one row, or the moments of this many columns.
inline constexpr int64_t kColumnsOfLine = 256;

}  // namespace shampoo::cuda
