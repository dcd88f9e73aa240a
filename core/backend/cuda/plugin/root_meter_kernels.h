// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/roots_chunk.h"

// The kernels of RootMeter (root_meter.cu), in the order in which they run.
namespace shampoo::cuda {

// A chunk and the arrays of RootMeterLayout.
struct MeasuredChunk {
  RootChunk chunk;
  double* originals;
  double* roots;
  RootStatus* statuses;
  double* one;
};

// Copies the matrices to `originals` and to `roots`, and writes the number 1 to `one`.
cudaError_t CopyMatrices(cudaStream_t stream, const MeasuredChunk& measured);
// Writes RootResiduals::error to RootStatus::error: compares the chunk's roots X with `roots`, which must contain the
// roots that the solver has computed in float64. Then copies X to `roots`.
cudaError_t RecordErrors(cudaStream_t stream, const MeasuredChunk& measured);
// Writes RootResiduals::residual to RootStatus::residual: compares `roots`, which must contain X^(1 / exponent), with
// A + shift I. Here exponent is RootSpec::exponent, shift is RootStatus::shift, and A is `originals` divided by
// RootMember::divisor.
cudaError_t RecordResiduals(cudaStream_t stream, const MeasuredChunk& measured);

}  // namespace shampoo::cuda
