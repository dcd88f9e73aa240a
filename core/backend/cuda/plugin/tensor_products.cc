// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/tensor_products.h"

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/gemm.h"

namespace shampoo::cuda {

Unfolding UnfoldingOf(const Block& block, int k) {
  Unfolding unfolding{1, block.shape[k], 1};
  for (int i = 0; i < k; ++i) unfolding.before *= block.shape[i];
  for (int i = k + 1; i < block.order(); ++i) unfolding.after *= block.shape[i];
  return unfolding;
}

Status ContractDim(const Handles& handles, const TensorDim& dim, const Contraction& how, const EqualArrays& from,
                   const EqualArrays& matrices, const EqualArrays& to, void* moved) {
  const Unfolding u = UnfoldingOf(dim.block, dim.dim);
  const int64_t other = u.before * u.after;
  const GemmInput b{matrices.data, u.d, matrices.stride};
  const auto multiply_from_left = [&](const void* in, void* out) {
    const GemmOptions options{.dtype = dim.computation, .tf32 = how.tf32, .transpose_a = !how.transposed};
    return Gemm(handles.blas, options, u.d, other, u.d, b, {in, other, from.stride}, {out, other, to.stride},
                dim.count);
  };
  if (u.before == 1) return multiply_from_left(from.data, to.data);
  if (u.after == 1) {
    const GemmOptions options{.dtype = dim.computation, .tf32 = how.tf32, .transpose_b = how.transposed};
    return Gemm(handles.blas, options, other, u.d, u.d, {from.data, u.d, from.stride}, b, {to.data, u.d, to.stride},
                dim.count);
  }
  // Move dim number dim.dim to the front, multiply, and move this dim back.
  SHAMPOO_CUDA_TRY(MoveDim(handles.stream, dim.computation, from.data, to.data, dim.count, from.stride, u, false));
  SHAMPOO_RETURN_IF_ERROR(multiply_from_left(to.data, moved));
  SHAMPOO_CUDA_TRY(MoveDim(handles.stream, dim.computation, moved, to.data, dim.count, to.stride, u, true));
  return {};
}

Status MultiplyDim(const Handles& handles, const TensorDim& dim, const EqualArrays& tensors, const EqualArrays& to,
                   void* moved) {
  const Unfolding u = UnfoldingOf(dim.block, dim.dim);
  const bool is_last = u.after == 1 && dim.dim > 0;
  const bool is_between = u.before > 1 && u.after > 1;
  if (is_between) {
    SHAMPOO_CUDA_TRY(
        MoveDim(handles.stream, dim.computation, tensors.data, moved, dim.count, tensors.stride, u, false));
  }
  // Viewed as a row-major matrix, a tensor is `other` x u.d if is_last is true, otherwise u.d x `other`.
  const int64_t other = u.before * u.after;
  return LowerProductWithTransposed(handles.blas, {.dtype = dim.computation, .transpose_a = is_last}, u.d, other,
                                    {is_between ? moved : tensors.data, is_last ? u.d : other, tensors.stride},
                                    {to.data, u.d, to.stride}, dim.count);
}

}  // namespace shampoo::cuda
