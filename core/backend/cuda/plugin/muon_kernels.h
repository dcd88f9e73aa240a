// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/backend/cuda/plugin/kernel_tables.h"

// The kernels of method muon. MuonDirection (core/backend/cpu) and Orthogonalize (core/roots) do the same on the CPU.
// muon_step.cc gives the order of the kernels and the contents of the buffers.
namespace shampoo::cuda {

struct MuonArgs {
  Tables tables;
  BatchTables batch;
  void* third;       // a third buffer of tensors, with dual_norm_scale or muon_math bf16
  double* divisors;  // one vector for each block of the batch
  Dtype computation;
};

// Copies the filtered gradients to the buffers in which the iteration begins, divided by a power of two and by their
// norms.
cudaError_t ScaleForIteration(cudaStream_t stream, const MuonArgs& args);

// The matrices of a shape group, all of the same size, in the dtype of the iteration.
struct EqualMatrices {
  void* data;
  int64_t stride;  // elements between the starts of consecutive matrices
  int64_t size;
  int64_t count;
};
// Copies the lower triangles to the upper ones.
cudaError_t MirrorMatrices(cudaStream_t stream, Dtype dtype, const EqualMatrices& matrices);
// Completes the polynomials P = a I + b A + c A A of the matrices A of `gram`. On entry, `polynomial` contains c A A,
// unless c is 0 (has_square false). Reads only lower triangles, and writes both triangles of P. The matrices P have the
// same stride as those of `gram`.
struct PolynomialTerms {
  double a, b;
  bool has_square;
};
cudaError_t CompletePolynomials(cudaStream_t stream, Dtype dtype, const EqualMatrices& gram, void* polynomial,
                                const PolynomialTerms& terms);

// With ns_norm schatten4: divides the tensors of a shape group by their Schatten-4 norms and by
// DeviceBlock::ns_divisor. ScaleForIteration has divided them by their Frobenius norms only. gram: the products of the
// tensors and their transposes, both triangles. first_item: the first item of the shape group in the batch.
struct EqualTensors {
  void* data;
  int64_t stride;
  int64_t elements;
};
cudaError_t CompleteSchatten(cudaStream_t stream, const MuonArgs& args, Dtype dtype, int64_t first_item,
                             const EqualMatrices& gram, const EqualTensors& tensors);
// Converts tensors from bfloat16 to float32.
cudaError_t WidenTensors(cudaStream_t stream, const EqualTensors& from, int64_t count, void* to, int64_t to_stride);

// Updates the second moments of the orthogonalized directions in batch.second, and divides the directions by the
// square roots of the moments. lines: the largest number of rows or of groups of columns of a block.
cudaError_t DivideByMoments(cudaStream_t stream, const MuonArgs& args, int64_t lines);
// The number of columns in a group of columns, which one CTA processes.
inline constexpr int64_t kColumnsOfLine = 256;

}  // namespace shampoo::cuda
