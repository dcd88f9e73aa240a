// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The matrix products of a shape group. One batched call computes the products of all its blocks, because their tensors
// and matrices are at equal distances in the buffers of the batch.
#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/backend/cuda/plugin/engine.h"
#include "core/backend/cuda/plugin/gemm.h"
#include "core/backend/cuda/plugin/tensor_products.h"

namespace shampoo::cuda {
namespace {

// The tensors or matrices of a shape group in one of the buffers.
struct Tensors {
  char* data;
  int64_t stride;
  int64_t element_bytes;

  char* At(int64_t offset) const { return data + offset * element_bytes; }
};

}  // namespace

Status Engine::MultiplyGradients(const Handles& handles, const BlockBatch& batch, const ShapeGroup& shape_group) {
  const BatchItem& item = batch.items[shape_group.first];
  const Block& block = *item.block;
  const auto element = static_cast<int64_t>(SizeOf(batch.computation));
  const auto count = static_cast<int64_t>(shape_group.count);
  char* const base = workspace_.data();
  const Tensors gradients{base + layout_.first + item.at * element, shape_group.stride, element};
  const Tensors moved{base + layout_.second + item.at * element, shape_group.stride, element};
  for (int k = 0; k < block.factor_count(); ++k) {
    const auto at = static_cast<size_t>(k);
    const Tensors matrices{base + layout_.matrices + item.matrix_at[at] * element, shape_group.matrix_stride[at],
                           element};
    const Unfolding u = UnfoldingOf(block, k);
    const bool is_last = u.after == 1 && k > 0;
    const bool is_between = u.before > 1 && u.after > 1;
    if (is_between) {
      SHAMPOO_CUDA_TRY(
          MoveDim(handles.stream, batch.computation, gradients.data, moved.data, count, shape_group.stride, u, false));
    }
    // Used as a row-major matrix, the tensor is other x d if dim k is the last one, otherwise d x other.
    const int64_t other = u.before * u.after;
    const Tensors& tensors = is_between ? moved : gradients;
    SHAMPOO_RETURN_IF_ERROR(LowerProductWithTransposed(
        handles.blas, {.dtype = batch.computation, .transpose_a = is_last}, u.d, other,
        {tensors.data, is_last ? u.d : other, tensors.stride}, {matrices.data, u.d, matrices.stride}, count));
  }
  return {};
}

Status Engine::Contract(const Handles& handles, const BlockBatch& batch, const ShapeGroup& shape_group, int64_t count) {
  const BatchItem& item = batch.items[shape_group.first];
  const Block& block = *item.block;
  const auto element = static_cast<int64_t>(SizeOf(batch.computation));
  char* const base = workspace_.data();
  GemmOptions options;
  options.dtype = batch.computation;
  options.tf32 = tf32_;
  Tensors from{base + layout_.first + item.at * element, shape_group.stride, element};
  Tensors to{base + layout_.second + item.at * element, shape_group.stride, element};
  for (int k = 0; k < block.factor_count(); ++k) {
    const auto at = static_cast<size_t>(k);
    const Unfolding u = UnfoldingOf(block, k);
    const int64_t other = u.before * u.after;
    const GemmInput x{base + layout_.matrices + item.matrix_at[at] * element, u.d, shape_group.matrix_stride[at]};
    const auto multiply_from_left = [&](const Tensors& in, const Tensors& out) {
      return Gemm(handles.blas, options, u.d, other, u.d, x, {in.data, other, in.stride}, {out.data, other, out.stride},
                  count);
    };
    if (u.before == 1) {
      SHAMPOO_RETURN_IF_ERROR(multiply_from_left(from, to));
    } else if (u.after == 1) {
      SHAMPOO_RETURN_IF_ERROR(Gemm(handles.blas, options, other, u.d, u.d, {from.data, u.d, from.stride}, x,
                                   {to.data, u.d, to.stride}, count));
    } else {
      // Move the dim to the front, multiply, and move it back. The result is in `to`, as for the other dims.
      SHAMPOO_CUDA_TRY(
          MoveDim(handles.stream, batch.computation, from.data, to.data, count, shape_group.stride, u, false));
      SHAMPOO_RETURN_IF_ERROR(multiply_from_left(to, from));
      SHAMPOO_CUDA_TRY(
          MoveDim(handles.stream, batch.computation, from.data, to.data, count, shape_group.stride, u, true));
    }
    std::swap(from, to);
  }
  return {};
}

}  // namespace shampoo::cuda
