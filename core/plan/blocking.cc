// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/blocking.h"

#include <algorithm>
#include <utility>

#include "core/base/at.h"

namespace shampoo {
namespace {

// Divides a flat shard into pieces.
class PieceCutter {
 public:
  explicit PieceCutter(const Shape& shape) : shape_(shape), strides_(RowMajorStrides(shape)) {}

  // Adds the pieces that cover elements [start, end) of a tensor with the dims from `dim` on. The recursion ends at the
  // innermost dim, because its stride of 1 leaves no remainder.
  void Cut(int dim, int64_t start, int64_t end) {
    if (start == end) return;
    const int64_t stride = At(strides_, dim);
    const int64_t first_whole = start / stride + (start % stride != 0 ? 1 : 0);
    const int64_t end_whole = end / stride;
    if (first_whole > end_whole) {  // start and end are in the same slice
      Cut(dim + 1, start - end_whole * stride, end - end_whole * stride);
      return;
    }
    if (start % stride != 0) Cut(dim + 1, start % stride, stride);
    if (first_whole < end_whole) {
      Shape center = shape_.DropFront(dim);
      center[0] = end_whole - first_whole;
      Add(center);
    }
    if (end % stride != 0) Cut(dim + 1, 0, end % stride);
  }

  void Add(const Shape& shape) {
    pieces_.push_back({covered_, shape});
    covered_ += shape.Product();
  }

  std::vector<ShardPiece> TakePieces() { return std::move(pieces_); }

 private:
  const Shape& shape_;
  std::array<int64_t, kMaxDims> strides_;
  std::vector<ShardPiece> pieces_;
  int64_t covered_ = 0;
};

// Returns whether a * b <= max_dim. The division avoids a product that may not fit int64_t.
bool MergedFits(int64_t a, int64_t b, int64_t max_dim) { return a <= max_dim / b; }

Shape MergeAll(const Shape& shape, int64_t max_dim) {
  Shape merged;
  for (const int64_t dim : shape.View()) {
    if (merged.ndim > 0 && MergedFits(merged[merged.ndim - 1], dim, max_dim)) {
      merged[merged.ndim - 1] *= dim;
    } else {
      merged.Append(dim);
    }
  }
  return merged;
}

Shape MergeSmall(const Shape& shape, int64_t max_dim, int64_t min_dim) {
  Shape reversed;
  int left = shape.ndim;
  for (int k = shape.ndim - 1; k >= 0; --k) {
    int64_t* const last = reversed.ndim > 0 ? &reversed[reversed.ndim - 1] : nullptr;
    const bool is_small = last != nullptr && (*last < min_dim || shape[k] < min_dim);
    if (is_small && left > 2 && MergedFits(*last, shape[k], max_dim)) {
      *last *= shape[k];
      --left;
    } else {
      reversed.Append(shape[k]);
    }
  }
  Shape merged;
  for (int k = reversed.ndim - 1; k >= 0; --k) merged.Append(reversed[k]);
  return merged;
}

int64_t ChunkCount(int64_t dim, int64_t chunk) { return dim / chunk + (dim % chunk != 0 ? 1 : 0); }

// Returns the size of the blocks of an elementwise method in each dim.
Shape ElementwiseChunk(const Shape& tensor) {
  Shape chunk = tensor;
  int64_t room = kElementwiseBlock;
  for (int dim = tensor.ndim - 1; dim >= 0; --dim) {
    chunk[dim] = std::min(tensor[dim], std::max<int64_t>(room, 1));
    room /= std::max<int64_t>(tensor[dim], 1);  // 0 if this dim is cut
  }
  return chunk;
}

// Cuts each dim into chunks; the last one may be shorter. The blocks are ordered by their chunk indices, dim 0
// outermost.
std::vector<BlockView> SplitInChunks(const Shape& tensor, const Shape& chunk) {
  Shape counts = tensor;
  for (int dim = 0; dim < tensor.ndim; ++dim) counts[dim] = ChunkCount(tensor[dim], chunk[dim]);
  const std::array<int64_t, kMaxDims> strides = RowMajorStrides(tensor);
  const int64_t count = counts.Product();

  std::vector<BlockView> blocks;
  blocks.reserve(static_cast<size_t>(count));
  for (int64_t block = 0; block < count; ++block) {
    BlockView view{tensor, strides, 0};
    int64_t chunks = block;  // the chunk indices as one number, the innermost varying fastest
    for (int dim = tensor.ndim - 1; dim >= 0; --dim) {
      const int64_t begin = chunks % counts[dim] * chunk[dim];
      chunks /= counts[dim];
      view.shape[dim] = std::min(chunk[dim], tensor[dim] - begin);
      view.offset += begin * At(strides, dim);
    }
    blocks.push_back(view);
  }
  return blocks;
}

// Returns the position of an element of the caller's buffer in the flattened global parameter.
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

// Checks that LAPACK and BLAS can count the elements of a block.
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

// Returns whether the blocks of a tensor have factor matrices.
bool IsPreconditioned(const Settings& settings, const Shape& tensor) {
  if (settings.precondition_1d || settings.grafting == Grafting::kNone) return true;
  const auto dims = tensor.View();
  return std::count_if(dims.begin(), dims.end(), [](int64_t dim) { return dim > 1; }) > 1;
}

// Appends blocks of one dense tensor that starts at element `start` of the caller's buffer.
Status AppendViews(const Param& param, const std::vector<BlockView>& views, bool is_preconditioned, int64_t start,
                   std::vector<Block>* blocks) {
  for (const BlockView& view : views) {
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

// Merges and splits one dense tensor.
Status AppendTensor(const Param& param, const Settings& settings, const Shape& tensor, int64_t start,
                    std::vector<Block>* blocks) {
  if (IsElementwise(settings.method)) return AppendViews(param, SplitElementwise(tensor), false, start, blocks);
  const Shape merged =
      settings.use_merge_dims ? MergeDims(tensor, settings.max_preconditioner_dim, settings.merge_min_dim) : tensor;
  int64_t count = 0;
  if (!CountBlocks(merged, settings.max_preconditioner_dim, &count) ||
      count > kMaxBlocks - static_cast<int64_t>(blocks->size())) {
    return Invalid("a tensor of shape ", ShapeText(tensor), " brings the plan above ", kMaxBlocks,
                   " blocks: set a larger value of max_preconditioner_dim, which is ", settings.max_preconditioner_dim);
  }
  return AppendViews(param, SplitBlocks(merged, settings.max_preconditioner_dim), IsPreconditioned(settings, tensor),
                     start, blocks);
}

}  // namespace

Shape StackedTensorShape(const Shape& shape, int stack_dims) { return shape.DropFront(stack_dims); }

int64_t CountStack(const Shape& shape, int stack_dims, int64_t start, int64_t end) {
  if (start == end) return 0;
  const int64_t size = StackedTensorShape(shape, stack_dims).Product();
  return (end - 1) / size - start / size + 1;
}

std::vector<StackedRange> SplitStack(const Shape& shape, int stack_dims, int64_t start, int64_t end) {
  const int64_t size = StackedTensorShape(shape, stack_dims).Product();
  std::vector<StackedRange> ranges;
  ranges.reserve(static_cast<size_t>(CountStack(shape, stack_dims, start, end)));
  for (int64_t next = start; next < end;) {
    const int64_t tensor = next / size;
    const int64_t begin = next - tensor * size;
    const int64_t length = std::min(size - begin, end - next);
    ranges.push_back({tensor, begin, begin + length, next - start});
    next += length;
  }
  return ranges;
}

std::vector<ShardPiece> FlatShardPieces(const Shape& shape, int64_t start, int64_t end) {
  PieceCutter cutter(shape);
  if (shape.ndim > 0) {
    cutter.Cut(0, start, end);
  } else if (start < end) {
    cutter.Add(Shape::Of({1}));
  }
  return cutter.TakePieces();
}

Shape MergeDims(const Shape& shape, int64_t max_dim, int64_t min_dim) {
  Shape squeezed;
  for (const int64_t dim : shape.View()) {
    if (dim != 1) squeezed.Append(dim);
  }
  if (squeezed.ndim == 0) squeezed.Append(1);
  return min_dim == 0 ? MergeAll(squeezed, max_dim) : MergeSmall(squeezed, max_dim, min_dim);
}

bool CountBlocks(const Shape& shape, int64_t max_dim, int64_t* count) {
  Shape counts = shape;
  for (int dim = 0; dim < shape.ndim; ++dim) counts[dim] = ChunkCount(shape[dim], max_dim);
  return CheckedProduct(counts, count);
}

std::vector<BlockView> SplitBlocks(const Shape& shape, int64_t max_dim) {
  const Shape tensor = shape.ndim > 0 ? shape : Shape::Of({1});
  Shape chunk = tensor;
  for (int dim = 0; dim < chunk.ndim; ++dim) chunk[dim] = max_dim;
  return SplitInChunks(tensor, chunk);
}

std::vector<BlockView> SplitElementwise(const Shape& shape) {
  const Shape tensor = shape.ndim > 0 ? shape : Shape::Of({1});
  return SplitInChunks(tensor, ElementwiseChunk(tensor));
}

Status AppendBlocks(const Param& param, const Settings& settings, std::vector<Block>* blocks) {
  const ParamDesc& desc = param.desc;
  if (param.elements == 0) return {};
  const bool flat = desc.form == ShardForm::kFlat;
  const Shape& shape = desc.form == ShardForm::kRectangle ? desc.local_shape : desc.shape;
  const int64_t start = flat ? desc.flat_offset : 0;
  const int64_t end = start + param.elements;
  if (CountStack(shape, desc.stack_dims, start, end) > kMaxBlocks) {
    return Invalid("stack_dims is ", desc.stack_dims, ": the shape ", ShapeText(shape), " stacks more than ",
                   kMaxBlocks, " tensors; use a smaller stack_dims");
  }
  const Shape tensor = StackedTensorShape(shape, desc.stack_dims);
  for (const StackedRange& range : SplitStack(shape, desc.stack_dims, start, end)) {
    if (!flat) {
      SHAMPOO_RETURN_IF_ERROR(AppendTensor(param, settings, tensor, range.offset_in_shard, blocks));
      continue;
    }
    for (const ShardPiece& piece : FlatShardPieces(tensor, range.start, range.end)) {
      SHAMPOO_RETURN_IF_ERROR(
          AppendTensor(param, settings, piece.shape, range.offset_in_shard + piece.offset_in_shard, blocks));
    }
  }
  return {};
}

}  // namespace shampoo
