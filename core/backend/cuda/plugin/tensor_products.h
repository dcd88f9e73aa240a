// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/backend/cuda/plugin/cuda_handles.h"
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/base/status.h"
#include "core/plan/block.h"

// Products of all tensors of a shape group with matrices of one dim. One batched call computes them, because tensors
// and matrices are at equal distances in the buffers of the batch.
namespace shampoo::cuda {

// Tensors or matrices of a shape group in one of the buffers.
struct EqualArrays {
  void* data;
  int64_t stride;  // elements between the starts of consecutive tensors or matrices
};

// A dim of the tensors of a shape group.
struct TensorDim {
  const Block& block;  // one block of the group
  int dim;
  Dtype computation;
  int64_t count;  // of tensors
};

// Returns three sizes of a block: the product of the dims before dim k, dim k, and the product of the dims after it.
Unfolding UnfoldingOf(const Block& block, int k);

// How ContractDim() contracts tensors with matrices.
struct Contraction {
  bool transposed = false;  // false: with the first index of the matrices. true: with the second index
  bool tf32 = false;
};
// Computes the contraction of index k (TensorDim::dim) of each tensor with an index of its matrix, which is row-major.
// moved: another buffer; used only if dim k is between other dims.
Status ContractDim(const Handles& handles, const TensorDim& dim, const Contraction& how, const EqualArrays& from,
                   const EqualArrays& matrices, const EqualArrays& to, void* moved);

// Computes the lower triangle of C_k, each tensor contracted with itself over all dims except k. moved: as for
// ContractDim().
Status MultiplyDim(const Handles& handles, const TensorDim& dim, const EqualArrays& tensors, const EqualArrays& to,
                   void* moved);

}  // namespace shampoo::cuda
