// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/backend/cuda/plugin/kernel_tables.h"

// Functions that enqueue the kernels for orthogonalizing directions. orthogonalizer.cc calls these functions, and
// describes the contents of the buffers. On the CPU, Orthogonalize (core/roots) computes the same.
namespace shampoo::cuda {

struct OrthogonalizeArgs {
  Tables tables;
  BatchTables batch;
  void* source;  // contains the matrices to orthogonalize, one for each block of the batch
  void* spare;   // a buffer with the layout of `source`, or `source` itself; overwritten only without dual_norm_scale
  void* third;   // `third` and `wide`: see DeviceLayout::OrthogonalLayout
  void* wide;
  Dtype computation;
};

// Divides each matrix in `source` by its Frobenius norm and, with ns_norm=frobenius, by DeviceBlock::ns_divisor. Writes
// the quotient to the buffer that contains X when the iteration begins (orthogonalizer.cc). Overwrites
// BatchTables::sums[2 i + 1] and BatchTables::products[i] for each tile i.
cudaError_t ScaleForIteration(cudaStream_t stream, const OrthogonalizeArgs& args);

// The matrices of a shape group, all of the same size, in the dtype of the iteration.
struct EqualMatrices {
  void* data;
  int64_t stride;  // elements between the starts of consecutive matrices
  int64_t size;
  int64_t count;
};
// Copies the lower triangle of each matrix to its upper triangle.
cudaError_t MirrorMatrices(cudaStream_t stream, Dtype dtype, const EqualMatrices& matrices);
// The coefficients of CompletePolynomials().
struct PolynomialTerms {
  double a, b;
  bool has_square;
};
// Completes the polynomials P = a I + b A + c A A of the matrices A of `gram`. On entry, `polynomial` contains c A A,
// unless c is 0 (has_square is false). Reads only lower triangles, and writes both triangles of P. The matrices P have
// the same stride as those of `gram`.
cudaError_t CompletePolynomials(cudaStream_t stream, Dtype dtype, const EqualMatrices& gram, void* polynomial,
                                const PolynomialTerms& terms);

// Tensors of equal size.
struct EqualTensors {
  void* data;
  int64_t stride;    // elements between the starts of consecutive tensors
  int64_t elements;  // number of elements of one tensor
};
// With ns_norm=schatten4: divides the tensors of a shape group by their Schatten-4 norms and by
// DeviceBlock::ns_divisor. Before, ScaleForIteration has divided them by their Frobenius norms. gram: the Gram matrices
// of the tensors (orthogonalizer.cc), with both triangles. first_item: ShapeGroup::first.
cudaError_t CompleteSchatten(cudaStream_t stream, const OrthogonalizeArgs& args, Dtype dtype, int64_t first_item,
                             const EqualMatrices& gram, const EqualTensors& tensors);
// Converts `count` tensors from `dtype` to float32. to_stride: elements between the starts of consecutive
// tensors in `to`.
cudaError_t ConvertTensors(cudaStream_t stream, Dtype dtype, const EqualTensors& from, int64_t count, float* to,
                           int64_t to_stride);

}  // namespace shampoo::cuda
