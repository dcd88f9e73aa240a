// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/blocks.h"

#include <algorithm>

#include "core/plan/check_param.h"
#include "core/plan/layout.h"
#include "core/plan/merge.h"
#include "core/plan/recovery.h"
#include "core/plan/split.h"
#include "core/plan/stack.h"

namespace shampoo {
namespace {

// The position in the flattened global parameter of an element of the caller's buffer.
int64_t GlobalOffset(const ParamDesc& desc, int64_t local) {
  if (desc.form == ShardForm::kWhole) return local;
  if (desc.form == ShardForm::kFlat) return desc.flat_offset + local;
  int64_t global = 0;
  int64_t stride = 1;
  for (int k = desc.shape.ndim - 1; k >= 0; --k) {
    global += (desc.local_offset[k] + local % desc.local_shape[k]) * stride;
    local /= desc.local_shape[k];
    stride *= desc.shape[k];
  }
  return global;
}

Status CheckBlock(const BlockView& view, bool is_preconditioned) {
  for (int k = 0; k < view.shape.ndim; ++k) {
    if (is_preconditioned && view.shape[k] > kLargestBlockDim) {
      return Invalid("a block of shape ", ShapeText(view.shape), " has a dim above ", kLargestBlockDim,
                     ", the largest that the eigensolver takes: set max_preconditioner_dim to at most ",
                     kLargestBlockDim);
    }
  }
  if (view.shape.Product() > kLargestBlock) {
    return Invalid("a block of shape ", ShapeText(view.shape),
                   " has more than 2^31 - 1 elements: set a smaller value "
                   "of max_preconditioner_dim");
  }
  return {};
}

bool IsPreconditioned(const Settings& settings, const Shape& tensor) {
  if (settings.precondition_1d || settings.grafting == Grafting::kNone) return true;
  const auto dims = tensor.View();
  return std::count_if(dims.begin(), dims.end(), [](int64_t dim) { return dim > 1; }) > 1;
}

// Merges and splits one dense tensor that starts at element `start` of the caller's buffer.
Status AppendTensor(const Param& param, const Settings& settings, const Shape& tensor, int64_t start,
                    std::vector<Block>* blocks) {
  const Shape merged =
      settings.use_merge_dims ? MergeDims(tensor, settings.max_preconditioner_dim, settings.merge_min_dim) : tensor;
  int64_t count = 0;
  if (!CountBlocks(merged, settings.max_preconditioner_dim, &count) ||
      count > kMostBlocks - static_cast<int64_t>(blocks->size())) {
    return Invalid("a tensor of shape ", ShapeText(tensor), " brings the plan above ", kMostBlocks,
                   " blocks: set a larger value of max_preconditioner_dim, which is ", settings.max_preconditioner_dim);
  }
  const bool is_preconditioned = IsPreconditioned(settings, tensor);
  for (const BlockView& view : SplitBlocks(merged, settings.max_preconditioner_dim)) {
    SHAMPOO_RETURN_IF_ERROR(CheckBlock(view, is_preconditioned));
    Block block;
    block.shape = view.shape;
    block.stride = block.tensor_stride = view.stride;
    block.offset = block.tensor_offset = start + view.offset;
    block.global_offset = GlobalOffset(param.desc, block.offset);
    block.elements = view.shape.Product();
    block.is_preconditioned = is_preconditioned;
    blocks->push_back(block);
  }
  return {};
}

}  // namespace

Status MakeBlocksOf(const Param& param, const Settings& settings, std::vector<Block>* blocks) {
  const ParamDesc& desc = param.desc;
  if (param.elements == 0) return {};
  const bool flat = desc.form == ShardForm::kFlat;
  const Shape& shape = desc.form == ShardForm::kRectangle ? desc.local_shape : desc.shape;
  const int64_t start = flat ? desc.flat_offset : 0;
  const int64_t end = start + param.elements;
  if (CountStack(shape, desc.stack_dims, start, end) > kMostBlocks) {
    return Invalid("stack_dims is ", desc.stack_dims, ": the shape ", ShapeText(shape), " stacks more than ",
                   kMostBlocks, " tensors");
  }
  const Shape tensor = StackedTensorShape(shape, desc.stack_dims);
  for (const StackedRange& range : SplitStack(shape, desc.stack_dims, start, end)) {
    if (!flat) {
      SHAMPOO_RETURN_IF_ERROR(AppendTensor(param, settings, tensor, range.offset_in_shard, blocks));
      continue;
    }
    for (const Piece& piece : RecoverPieces(tensor, range.start, range.end)) {
      SHAMPOO_RETURN_IF_ERROR(
          AppendTensor(param, settings, piece.shape, range.offset_in_shard + piece.offset_in_shard, blocks));
    }
  }
  return {};
}

}  // namespace shampoo
