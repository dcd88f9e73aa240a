// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/backend/cuda/plugin/cuda_handles.h"
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/base/status.h"
#include "core/plan/block.h"

// Products along one dim of all tensors of a shape group (block_batches.h). Batched calls of cuBLAS can compute these
// products, because the tensors are equally spaced in memory, and so are the matrices.
namespace shampoo::cuda {

// Equally spaced tensors or matrices of a shape group.
struct EqualArrays {
  void* data;
  int64_t stride;  // elements between the starts of consecutive tensors or matrices
};

// A dim of the tensors of a shape group.
struct TensorDim {
  const Block& block;  // one block of the shape group
  int dim;
  Dtype computation;
  int64_t count;  // number of tensors
};

// Returns three sizes of a block: the product of the dims before dim k, the length of dim k, and the product of the
// dims after dim k.
Unfolding UnfoldingOf(const Block& block, int k);

// How ContractDim() contracts tensors with matrices.
struct Contraction {
  // If true, tensors are contracted with the second index of each matrix, otherwise with the first index.
  bool transposed = false;
  bool tf32 = false;  // for float32 only: round both inputs of the product to TF32
};
// Contracts dim k (TensorDim::dim) of each tensor in `from` with one index of the tensor's matrix
// (Contraction::transposed), and writes the results to `to`. The matrices are row-major. moved: a buffer for an
// intermediate result, which is used only if dim k is between other dims. `moved` may be from.data.
Status ContractDim(const Handles& handles, const TensorDim& dim, const Contraction& how, const EqualArrays& from,
                   const EqualArrays& matrices, const EqualArrays& to, void* moved);

// Writes to `to`, for each tensor, the lower triangle of C_k: the tensor contracted with itself over all dims except k.
// moved: a buffer for a copy of the tensors, which is used only if dim k is between other dims.
Status MultiplyDim(const Handles& handles, const TensorDim& dim, const EqualArrays& tensors, const EqualArrays& to,
                   void* moved);

}  // namespace shampoo::cuda
