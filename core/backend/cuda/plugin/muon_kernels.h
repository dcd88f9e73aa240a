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
  double* divisors;  // for each block of the batch, the divisors of its rows or of its columns
  Dtype computation;
};

// batch.second contains the orthogonalized directions. Updates their second moments, and divides the directions by
// sqrt(second moment) + epsilon. lines: the number of CTAs per block that update moments of rows or columns. It must be
// at least the number of rows of each block, and at least its number of groups of kColumnsOfLine columns.
cudaError_t DivideByMoments(cudaStream_t stream, const MuonArgs& args, int64_t lines);
// The number of columns in a group of columns. One CTA processes one such group.
inline constexpr int64_t kColumnsOfLine = 256;

}  // namespace shampoo::cuda
