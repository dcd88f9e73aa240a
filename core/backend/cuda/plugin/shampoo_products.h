// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/device_layout.h"
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/backend/cuda/plugin/shape_group_streams.h"
#include "core/backend/cuda/plugin/tensor_products.h"
#include "core/base/status.h"

namespace shampoo::cuda {

// The matrix products of method shampoo for the shape groups of a batch (block_batches.h). At first, the gradients G or
// the filtered gradients H are in the first of the two buffers of tensors (BatchTables). Each contraction along a dim
// reads one of the buffers and writes the other. C_k is a tensor contracted with itself over all dims except k.
class ShampooProducts {
 public:
  // workspace: device memory that is divided as in `layout`. All arguments except tf32 must outlive the object.
  ShampooProducts(const PlanView& plan, const DeviceLayout& layout, char* workspace, const ShapeGroupStreams& streams,
                  bool tf32)
      : plan_(plan), layout_(layout), workspace_(workspace), streams_(streams), tf32_(tf32) {}

  // Writes C_k of the gradients to the lower triangles of the batch's matrices. Skips blocks with factor_correction=kl.
  Status MultiplyGradients(cudaStream_t stream, const BlockBatch& batch) const;

  // Updates the factor matrices of blocks with factor_correction=kl (KL-Shampoo, arXiv 2509.03378):
  // F_k <- factor_decay F_k + factor_weight C_k (step_scalars.h). Here C_k is computed from the gradient after its
  // contraction with the inverse roots of all dims except k. Afterwards, the first buffer of tensors contains the
  // gradients again. Does nothing if the batch has no block with factor_correction=kl.
  Status UpdateKlFactors(cudaStream_t stream, const Tables& tables, const BatchTables& work,
                         const BlockBatch& batch) const;

  // Computes P of the first `count` blocks of a shape group: contracts H with the batch's matrices, which must contain
  // the inverse roots. DeviceBlock::direction_in_second specifies the buffer in which P is then.
  Status Precondition(const Handles& handles, const BlockBatch& batch, const ShapeGroup& shape_group,
                      int64_t count) const;

  // Computes every product once, so that cuBLAS loads its kernels before the first step (see engine.cc).
  Status Preload(const Handles& handles, const BlockBatch& batch, const ShapeGroup& shape_group) const;

 private:
  struct Contracted {
    EqualArrays tensors;  // the results of Contract()
    EqualArrays spare;    // the buffer that does not contain `tensors`
  };

  bool IsKl(const BlockBatch& batch, const ShapeGroup& shape_group) const;
  EqualArrays TensorsIn(int64_t buffer, const BlockBatch& batch, const ShapeGroup& shape_group) const;
  EqualArrays MatricesOf(const BlockBatch& batch, const ShapeGroup& shape_group, int k) const;
  Status MultiplyDims(const Handles& handles, const BlockBatch& batch, const ShapeGroup& shape_group) const;
  Status MultiplyWhitened(const Handles& handles, const BlockBatch& batch, const ShapeGroup& shape_group, int k) const;
  // Contracts the first `count` tensors of a shape group with the matrices of all dims except dim `except`. If `except`
  // is -1, uses the matrices of all dims.
  Status Contract(const Handles& handles, const BlockBatch& batch, const ShapeGroup& shape_group, int64_t count,
                  int except, bool tf32, Contracted* out) const;

  const PlanView& plan_;
  const DeviceLayout& layout_;
  char* workspace_;
  const ShapeGroupStreams& streams_;
  bool tf32_;
};

}  // namespace shampoo::cuda
