// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/shampoo_products.h"

#include <algorithm>
#include <utility>

#include "core/backend/cuda/plugin/cuda_call.h"

namespace shampoo::cuda {
namespace {

constexpr int kNoDim = -1;

const Block& BlockOf(const BlockBatch& batch, const ShapeGroup& shape_group) {
  return *batch.items[shape_group.first].block;
}

}  // namespace

bool ShampooProducts::IsKl(const BlockBatch& batch, const ShapeGroup& shape_group) const {
  const Block& block = BlockOf(batch, shape_group);
  return block.is_preconditioned && plan_.groups[block.group].factor_correction == FactorTerm::kKl;
}

// buffer: DeviceLayout::first or DeviceLayout::second, the offsets of the two buffers of tensors.
EqualArrays ShampooProducts::TensorsIn(int64_t buffer, const BlockBatch& batch, const ShapeGroup& shape_group) const {
  const int64_t at = batch.items[shape_group.first].at * static_cast<int64_t>(SizeOf(batch.computation));
  return {workspace_ + buffer + at, shape_group.stride};
}

EqualArrays ShampooProducts::MatricesOf(const BlockBatch& batch, const ShapeGroup& shape_group, int k) const {
  const auto dim = static_cast<size_t>(k);
  const int64_t at = batch.items[shape_group.first].matrix_at[dim] * static_cast<int64_t>(SizeOf(batch.computation));
  return {workspace_ + layout_.matrices + at, shape_group.matrix_stride[dim]};
}

Status ShampooProducts::MultiplyGradients(cudaStream_t stream, const BlockBatch& batch) const {
  return streams_.ForEach(stream, batch, [&](const Handles& handles, const ShapeGroup& shape_group) {
    return IsKl(batch, shape_group) ? Status() : MultiplyDims(handles, batch, shape_group);
  });
}

Status ShampooProducts::MultiplyDims(const Handles& handles, const BlockBatch& batch,
                                     const ShapeGroup& shape_group) const {
  const Block& block = BlockOf(batch, shape_group);
  const EqualArrays gradients = TensorsIn(layout_.first, batch, shape_group);
  const EqualArrays moved = TensorsIn(layout_.second, batch, shape_group);
  for (int k = 0; k < block.factor_count(); ++k) {
    if (!block.has_factor(k)) continue;
    SHAMPOO_RETURN_IF_ERROR(MultiplyDim(handles, {block, k, batch.computation, static_cast<int64_t>(shape_group.count)},
                                        gradients, MatricesOf(batch, shape_group, k), moved.data));
  }
  return {};
}

// The products overwrite gradients and inverse roots in the workspace. Every iteration therefore loads the inverse
// roots before the products, and loads the gradients again after the products. The factor matrix of dim k is updated
// before the gradient is contracted for dim k + 1. The CPU backend uses the same order.
Status ShampooProducts::UpdateKlFactors(cudaStream_t stream, const Tables& tables, const BatchTables& work,
                                        const BlockBatch& batch) const {
  int dims = 0;
  for (const ShapeGroup& shape_group : batch.shape_groups) {
    if (IsKl(batch, shape_group)) dims = std::max(dims, BlockOf(batch, shape_group).factor_count());
  }
  for (int k = 0; k < dims; ++k) {
    SHAMPOO_CUDA_TRY(LoadInverseRoots(stream, tables, work, batch.computation));
    SHAMPOO_RETURN_IF_ERROR(streams_.ForEach(stream, batch, [&](const Handles& handles, const ShapeGroup& shape_group) {
      return IsKl(batch, shape_group) ? MultiplyWhitened(handles, batch, shape_group, k) : Status();
    }));
    SHAMPOO_CUDA_TRY(UpdateWhitenedFactors(stream, tables, work, batch.computation, k));
    SHAMPOO_CUDA_TRY(LoadGradients(stream, tables, work, batch.computation));
  }
  return {};
}

// Whitens the gradients for dim k: contracts them with the inverse roots of all other dims. Then writes C_k
// (shampoo_products.h) of the whitened gradients to the matrices of dim k.
Status ShampooProducts::MultiplyWhitened(const Handles& handles, const BlockBatch& batch, const ShapeGroup& shape_group,
                                         int k) const {
  const Block& block = BlockOf(batch, shape_group);
  if (k >= block.factor_count() || !block.has_factor(k)) return {};
  const auto count = static_cast<int64_t>(shape_group.count);
  Contracted whitened;
  SHAMPOO_RETURN_IF_ERROR(Contract(handles, batch, shape_group, count, k, false, &whitened));
  return MultiplyDim(handles, {block, k, batch.computation, count}, whitened.tensors, MatricesOf(batch, shape_group, k),
                     whitened.spare.data);
}

Status ShampooProducts::Precondition(const Handles& handles, const BlockBatch& batch, const ShapeGroup& shape_group,
                                     int64_t count) const {
  Contracted direction;
  return Contract(handles, batch, shape_group, count, kNoDim, tf32_, &direction);
}

Status ShampooProducts::Preload(const Handles& handles, const BlockBatch& batch, const ShapeGroup& shape_group) const {
  SHAMPOO_RETURN_IF_ERROR(MultiplyDims(handles, batch, shape_group));
  for (int k = 0; IsKl(batch, shape_group) && k < BlockOf(batch, shape_group).factor_count(); ++k) {
    SHAMPOO_RETURN_IF_ERROR(MultiplyWhitened(handles, batch, shape_group, k));
  }
  return Precondition(handles, batch, shape_group, static_cast<int64_t>(shape_group.count));
}

Status ShampooProducts::Contract(const Handles& handles, const BlockBatch& batch, const ShapeGroup& shape_group,
                                 int64_t count, int except, bool tf32, Contracted* out) const {
  const Block& block = BlockOf(batch, shape_group);
  *out = {TensorsIn(layout_.first, batch, shape_group), TensorsIn(layout_.second, batch, shape_group)};
  for (int k = 0; k < block.factor_count(); ++k) {
    if (!block.has_factor(k) || k == except) continue;
    // If dim k is between other dims, ContractDim() also needs a buffer for an intermediate result. It uses the
    // buffer of its input (out->tensors) for this result.
    SHAMPOO_RETURN_IF_ERROR(ContractDim(handles, {block, k, batch.computation, count}, {.tf32 = tf32}, out->tensors,
                                        MatricesOf(batch, shape_group, k), out->spare, out->tensors.data));
    std::swap(out->tensors, out->spare);
  }
  return {};
}

}  // namespace shampoo::cuda
