// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/blocking.h"

#include <algorithm>
#include <utility>

#include "core/base/at.h"

namespace shampoo {
namespace {

// Divides a flat shard into dense pieces (FlatShardPieces).
class PieceCutter {
 public:
  explicit PieceCutter(const Shape& shape) : shape_(shape), strides_(RowMajorStrides(shape)) {}

  // Adds the pieces that cover elements [start, end) of a row-major tensor whose dims are shape_[dim], shape_[dim + 1]
  // and so on. The recursion ends at the innermost dim, because its stride of 1 leaves no remainder.
  void Cut(int dim, int64_t start, int64_t end) {
    if (start == end) return;
    const int64_t stride = At(strides_, dim);
    const int64_t first_whole = start / stride + (start % stride != 0 ? 1 : 0);
    const int64_t end_whole = end / stride;
    if (first_whole > end_whole) {  // one slice along `dim` contains the whole range
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

bool IsSkipped(uint32_t skipped, int k) { return (skipped >> k & 1) != 0; }

// Collects the dims of a merged shape. The caller goes through the original dims from the left or from the right, and
// either appends a dim or merges it with the last collected dim.
class DimMerger {
 public:
  DimMerger(int64_t max_dim, int64_t skip_size) : max_dim_(max_dim), skip_size_(skip_size) {}

  // Returns whether the dim may be merged with the last collected dim.
  bool CanMerge(int64_t dim) const {
    return merged_.ndim > 0 && !IsLong(dim) && !IsSkipped(skipped_, merged_.ndim - 1) &&
           MergedFits(last(), dim, max_dim_);
  }
  void Merge(int64_t dim) { merged_[merged_.ndim - 1] *= dim; }
  void Append(int64_t dim) {
    if (IsLong(dim)) skipped_ |= 1U << merged_.ndim;
    merged_.Append(dim);
  }
  int64_t last() const { return merged_[merged_.ndim - 1]; }
  Shape shape() const { return merged_; }
  uint32_t skipped() const { return skipped_; }

 private:
  bool IsLong(int64_t dim) const { return skip_size_ > 0 && dim > skip_size_; }

  int64_t max_dim_;
  int64_t skip_size_;
  Shape merged_;
  uint32_t skipped_ = 0;
};

void MergeAll(const Shape& shape, DimMerger* merger) {
  for (const int64_t dim : shape.View()) {
    if (merger->CanMerge(dim)) {
      merger->Merge(dim);
    } else {
      merger->Append(dim);
    }
  }
}

void MergeSmall(const Shape& shape, int64_t min_dim, DimMerger* reversed) {
  int left = shape.ndim;
  for (int k = shape.ndim - 1; k >= 0; --k) {
    if (left > 2 && reversed->CanMerge(shape[k]) && (reversed->last() < min_dim || shape[k] < min_dim)) {
      reversed->Merge(shape[k]);
      --left;
    } else {
      reversed->Append(shape[k]);
    }
  }
}

int64_t ChunkCount(int64_t dim, int64_t chunk) { return dim / chunk + (dim % chunk != 0 ? 1 : 0); }

// Returns the shape of the blocks into which an elementwise method divides a tensor.
Shape ElementwiseChunk(const Shape& tensor) {
  Shape chunk = tensor;
  int64_t room = kElementwiseBlock;
  for (int dim = tensor.ndim - 1; dim >= 0; --dim) {
    chunk[dim] = std::min(tensor[dim], std::max<int64_t>(room, 1));
    room /= std::max<int64_t>(tensor[dim], 1);  // 0 if this dim is cut
  }
  return chunk;
}

// Cuts each dim k of a tensor into chunks of length chunk[k]; the last chunk may be shorter. The blocks are ordered by
// their chunk indices, dim 0 outermost.
std::vector<TensorBlock> SplitInChunks(const Shape& tensor, const Shape& chunk) {
  Shape counts = tensor;
  for (int dim = 0; dim < tensor.ndim; ++dim) counts[dim] = ChunkCount(tensor[dim], chunk[dim]);
  const std::array<int64_t, kMaxDims> strides = RowMajorStrides(tensor);
  const int64_t count = counts.Product();

  std::vector<TensorBlock> blocks;
  blocks.reserve(static_cast<size_t>(count));
  for (int64_t block = 0; block < count; ++block) {
    TensorBlock view{tensor, strides, 0};
    int64_t chunks = block;  // all chunk indices as one number; the innermost index varies fastest
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

// Returns the position of an element in the flattened global parameter. local: the offset of the element in the
// caller's buffer.
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

// The numbers of rows and columns of the matrix that a stacked tensor or, with row_splits, one of its parts forms (see
// Block::matrix_rows). They describe the whole matrix, even if this rank holds only a shard of it. If the tensor has
// fewer than two dims, both are 0.
struct MatrixSize {
  int64_t rows = 0;
  int64_t columns = 0;
  bool is_matrix() const { return rows > 0; }
};

// A tensor whose dims have been merged, and how its blocks are preconditioned.
struct MergedTensor {
  Shape shape;
  MatrixSize matrix;
  int64_t orthogonal_rows = 0;  // Block::orthogonal_rows
  uint32_t skipped = 0;         // bit k: dim k has no factor matrix and is not split
  uint32_t ignored = 0;         // bit k: dim k has no factor matrix but is split
  bool is_preconditioned = false;
  bool is_orthogonalized = false;
  bool is_routed = false;

  bool has_factor(int k) const { return is_preconditioned && !IsSkipped(skipped | ignored, k); }
};

// Checks that a block is not too large for LAPACK and BLAS, which count elements in 32-bit integers.
Status CheckBlock(const TensorBlock& view, const MergedTensor& tensor) {
  for (int k = 0; k < view.shape.ndim; ++k) {
    if (tensor.has_factor(k) && view.shape[k] > kLargestBlockDim) {
      return Invalid("a block of shape ", ShapeText(view.shape), " has a dim above ", kLargestBlockDim,
                     ", the largest that the eigensolver takes: set max_preconditioner_dim to at most ",
                     kLargestBlockDim,
                     " or, if a key such as update_norm requires a single block, divide the tensor with row_splits or "
                     "stack_dims");
    }
  }
  if (tensor.is_orthogonalized &&
      (std::min(view.shape[0], view.shape[1]) > kLargestBlockDim || view.shape.Product() > kLargestBlock)) {
    return Invalid("a matrix of shape ", ShapeText(view.shape),
                   " is too large for method muon: expected min(rows, columns) of at most ", kLargestBlockDim,
                   ", and at most 2^31 - 1 elements; divide the matrix with row_splits or stack_dims, or use another "
                   "method");
  }
  if (view.shape.Product() > kLargestBlock) {
    return Invalid(
        "a block of shape ", ShapeText(view.shape),
        " has more than 2^31 - 1 elements: set a smaller max_preconditioner_dim or, if skip_dim_size or a key such as "
        "update_norm prevents a division into blocks, divide the tensor with row_splits or stack_dims");
  }
  return {};
}

// Returns whether the role of a parameter excludes it from preconditioning and orthogonalization.
bool HasRole(const Settings& settings, const ParamDesc& desc) {
  return settings.route == Route::kAuto && desc.role != Role::kHidden;
}

// Returns whether the blocks of a tensor have factor matrices. tensor: the shape before merging. shape: the shape after
// merging.
bool IsPreconditioned(const Settings& settings, const ParamDesc& desc, const Shape& tensor, const Shape& shape,
                      uint32_t skipped) {
  if (IsElementwise(settings.method) || HasRole(settings, desc) || (skipped != 0 && skipped == (1U << shape.ndim) - 1))
    return false;
  if (settings.precondition_1d) return true;
  if (UsesEigenbasis(settings.method)) return shape.ndim > 1;
  if (settings.grafting == Grafting::kNone) return true;
  const auto dims = tensor.View();
  return std::count_if(dims.begin(), dims.end(), [](int64_t dim) { return dim > 1; }) > 1;
}

// Returns the set of all dims except one. If `smaller` is true, the exception is the smallest of the dims that are not
// skipped, otherwise the largest. If several dims have this length, the exception is the first of them. If all
// dims are skipped, there is no exception.
uint32_t AllButOne(const Shape& shape, uint32_t skipped, bool smaller) {
  int chosen = -1;
  for (int k = 0; k < shape.ndim; ++k) {
    if (IsSkipped(skipped, k)) continue;
    if (chosen < 0 || (smaller ? shape[k] < shape[chosen] : shape[k] > shape[chosen])) chosen = k;
  }
  const uint32_t all = (1U << shape.ndim) - 1;
  return chosen < 0 ? all : all & ~(1U << chosen);
}

// Returns the shape of a tensor as a matrix: all dims except the output dim (RowDim) become one dim.
Shape MatrixShape(const Shape& tensor, Fan fan) {
  if (tensor.ndim < 2) return Shape::Of({1, tensor.Product()});
  const int64_t rows = tensor[RowDim(tensor, fan)];
  const int64_t columns = tensor.Product() / rows;
  return fan == Fan::kInOut ? Shape::Of({columns, rows}) : Shape::Of({rows, columns});
}

MergedTensor Merge(const Settings& settings, const ParamDesc& desc, const Shape& tensor, const MatrixSize& matrix) {
  MergedTensor merged{tensor, matrix};
  if (settings.method == Method::kMuon) {
    merged.is_orthogonalized = matrix.is_matrix() && !HasRole(settings, desc);
    merged.is_routed = !merged.is_orthogonalized;
    if (merged.is_orthogonalized) merged.shape = MatrixShape(tensor, desc.fan);
    if (merged.is_orthogonalized) merged.orthogonal_rows = merged.shape[0];
    return merged;
  }
  if (IsElementwise(settings.method)) return merged;
  if (settings.use_merge_dims) {
    merged.shape = MergeDims(tensor, settings.max_preconditioner_dim, settings.merge_min_dim, settings.skip_dim_size,
                             &merged.skipped);
  } else {
    for (int k = 0; k < tensor.ndim; ++k) {
      if (settings.skip_dim_size > 0 && tensor[k] > settings.skip_dim_size) merged.skipped |= 1U << k;
    }
  }
  if (settings.precondition_dims != PreconditionDims::kAll && merged.shape.ndim > 1) {
    merged.skipped = AllButOne(merged.shape, merged.skipped, settings.precondition_dims == PreconditionDims::kSmaller);
  }
  for (size_t i = 0; i + 1 < settings.ignored_dims.size(); i += 2) {
    const int64_t dim = settings.ignored_dims[i + 1];
    if (settings.ignored_dims[i] == merged.shape.ndim && dim < merged.shape.ndim) merged.ignored |= 1U << dim;
  }
  merged.is_preconditioned = IsPreconditioned(settings, desc, tensor, merged.shape, merged.skipped | merged.ignored);
  if (merged.is_preconditioned && settings.soap_post == SoapPost::kOrthogonalize) {
    merged.orthogonal_rows = desc.fan == Fan::kInOut ? matrix.columns : matrix.rows;
  }
  return merged;
}

// Where the elements of a tensor are in the caller's buffer. The tensor is dense, or it consists of some columns of a
// dense tensor with longer rows. For a dense tensor, `columns` and `row_length` may both be 1 instead of the length of
// the last dim.
struct TensorPlace {
  int64_t start = 0;       // offset of the first element
  int64_t columns = 1;     // length of the last dim of the tensor
  int64_t row_length = 1;  // distance in the buffer between the starts of consecutive rows

  int64_t OffsetOf(int64_t element) const { return element / columns * row_length + element % columns; }
};

// Checks that each dim of a view has a single stride in memory, and that the stride of the last dim is 1. view: the
// shape that the tensor has when it is split into blocks, normally the shape after merging.
Status CheckPlace(const Shape& tensor, const Shape& view, const TensorPlace& place) {
  if (place.columns == place.row_length) return {};
  if (place.columns < 2) {
    return Invalid("row_splits with fan in_out: this rank holds a part of shape ", ShapeText(tensor),
                   ", which has one column and is not contiguous in the parameter: expected each rank to hold 0 or at "
                   "least 2 columns of each part; or use a separate parameter for each part");
  }
  if (view[view.ndim - 1] == place.columns) return {};
  return Invalid("row_splits with fan in_out: a part of shape ", ShapeText(tensor), " would be merged to ",
                 ShapeText(view),
                 ", which is not a view of the parameter: set use_merge_dims=false in the group of the parameter");
}

// Appends one block for each of the views of a tensor.
Status AppendViews(const Param& param, const std::vector<TensorBlock>& views, const MergedTensor& tensor,
                   const TensorPlace& place, std::vector<Block>* blocks) {
  if (static_cast<int64_t>(views.size()) > kMaxBlocks - static_cast<int64_t>(blocks->size())) {
    return Invalid("the plan would have more than ", kMaxBlocks,
                   " blocks: expected fewer parameters, fewer stacked tensors, or fewer parts in row_splits");
  }
  for (const TensorBlock& view : views) {
    SHAMPOO_RETURN_IF_ERROR(CheckBlock(view, tensor));
    Block block;
    block.shape = view.shape;
    for (int k = 0; k < view.shape.ndim; ++k) At(block.stride, k) = place.OffsetOf(At(view.stride, k));
    block.tensor_stride = block.stride;
    block.offset = block.tensor_offset = place.start + place.OffsetOf(view.offset);
    block.global_offset = GlobalOffset(param.desc, block.offset);
    block.elements = view.shape.Product();
    block.is_preconditioned = tensor.is_preconditioned;
    block.is_orthogonalized = tensor.is_orthogonalized;
    block.is_routed = tensor.is_routed;
    block.matrix_rows = tensor.matrix.rows;
    block.matrix_columns = tensor.matrix.columns;
    block.orthogonal_rows = tensor.orthogonal_rows;
    block.skipped_dims = tensor.skipped | tensor.ignored;
    blocks->push_back(block);
  }
  return {};
}

// Merges the dims of one tensor, splits the tensor, and appends its blocks.
Status AppendTensor(const Param& param, const Settings& settings, const Shape& tensor, const MatrixSize& matrix,
                    const TensorPlace& place, std::vector<Block>* blocks) {
  const MergedTensor merged = Merge(settings, param.desc, tensor, matrix);
  // With method shampoo, a tensor without factor matrices is split like a tensor that has them.
  const bool is_elementwise =
      !merged.is_preconditioned && !merged.is_orthogonalized && settings.method != Method::kShampoo;
  const Shape& view = is_elementwise ? tensor : merged.shape;
  SHAMPOO_RETURN_IF_ERROR(CheckPlace(tensor, view, place));
  if (merged.is_orthogonalized || (is_elementwise && !merged.is_routed && settings.uses_norms())) {
    return AppendViews(param, SplitBlocks(view, std::max<int64_t>(view.Product(), 1)), merged, place, blocks);
  }
  if (is_elementwise) return AppendViews(param, SplitElementwise(tensor), merged, place, blocks);
  int64_t count = 0;
  if (!CountBlocks(merged.shape, settings.max_preconditioner_dim, &count, merged.skipped) ||
      count > kMaxBlocks - static_cast<int64_t>(blocks->size())) {
    return Invalid("a tensor of shape ", ShapeText(tensor), " brings the plan above ", kMaxBlocks,
                   " blocks: max_preconditioner_dim is ", settings.max_preconditioner_dim,
                   "; set a larger value, or reduce the number of parameters and of stacked tensors");
  }
  if (count > 1 && settings.uses_norms()) {
    return Invalid("a tensor of shape ", ShapeText(tensor), " is divided into ", count,
                   " blocks: expected a single block, because the group uses norms of whole tensors (one of the keys ",
                   kNormKeys, "); set max_preconditioner_dim to at least ",
                   *std::max_element(merged.shape.View().begin(), merged.shape.View().end()),
                   ", or use a group without these keys for the parameter");
  }
  return AppendViews(param, SplitBlocks(merged.shape, settings.max_preconditioner_dim, merged.skipped), merged, place,
                     blocks);
}

// Appends the blocks of the parts of stacked tensors. Without row_splits, a tensor has one part.
class PartAppender {
 public:
  PartAppender(const Param& param, const Settings& settings, const Shape& tensor, std::vector<Block>* blocks)
      : param_(param), settings_(settings), whole_(tensor), blocks_(blocks) {
    const ParamDesc& desc = param.desc;
    const int row_dim = RowDim(tensor, desc.fan);
    row_dim_ = desc.row_splits.empty() ? 0 : row_dim;
    parts_ = TensorParts(desc.row_splits, tensor.ndim > 0 ? tensor[row_dim_] : 1);
    if (tensor.ndim >= 2) matrix_ = {tensor[row_dim], tensor.Product() / tensor[row_dim]};
    if (desc.form == ShardForm::kRectangle && tensor.ndim > 0)
      first_row_ = desc.local_offset[desc.stack_dims + row_dim_];
  }

  int64_t count() const { return static_cast<int64_t>(parts_.size()); }

  // For each part of one stacked tensor, appends the blocks of the elements that this rank holds. held: the shape of
  // the rectangle that the rank holds, which may be the whole tensor. start: the offset of the rectangle's first
  // element in the caller's buffer.
  Status AppendRectangle(const Shape& held, int64_t start) {
    const int64_t rows = held.ndim > 0 ? held[row_dim_] : 1;
    for (const TensorPart& part : parts_) {
      const int64_t begin = std::max<int64_t>(part.first - first_row_, 0);
      const int64_t end = std::min(part.first + part.count - first_row_, rows);
      if (begin >= end) continue;
      Shape shape = held;
      TensorPlace place{start, 1, 1};
      if (held.ndim > 0) {
        const bool cuts_columns = row_dim_ > 0;
        shape[row_dim_] = end - begin;
        place.start += begin * (cuts_columns ? 1 : held.DropFront(1).Product());
        if (cuts_columns) place = {place.start, end - begin, rows};
      }
      SHAMPOO_RETURN_IF_ERROR(AppendTensor(param_, settings_, shape, MatrixOf(part), place, blocks_));
    }
    return {};
  }

  // For each part of one stacked tensor, appends the blocks of the elements in the flat shard [range.start, range.end).
  // Requires that row_splits is empty or divides dim 0.
  Status AppendFlat(const StackedRange& range) {
    const int64_t row = whole_.ndim > 0 ? whole_.DropFront(1).Product() : 1;
    for (const TensorPart& part : parts_) {
      const int64_t first = part.first * row;
      const int64_t begin = std::max(range.start, first);
      const int64_t end = std::min(range.end, first + part.count * row);
      if (begin >= end) continue;
      // FlatShardPieces() receives the shape of the whole tensor instead of the shape of the part. The two shapes
      // differ only in the length of dim 0, which does not affect the pieces of a range.
      for (const ShardPiece& piece : FlatShardPieces(whole_, begin - first, end - first)) {
        const int64_t start = range.offset_in_shard + begin - range.start + piece.offset_in_shard;
        SHAMPOO_RETURN_IF_ERROR(AppendTensor(param_, settings_, piece.shape, MatrixOf(part), {start, 1, 1}, blocks_));
      }
    }
    return {};
  }

 private:
  MatrixSize MatrixOf(const TensorPart& part) const {
    const bool is_split = matrix_.is_matrix() && !param_.desc.row_splits.empty();
    return is_split ? MatrixSize{part.count, matrix_.columns} : matrix_;
  }

  const Param& param_;
  const Settings& settings_;
  Shape whole_;
  MatrixSize matrix_;  // of the whole tensor
  std::vector<Block>* blocks_;
  int row_dim_ = 0;        // the dim that row_splits divides; 0 without row_splits
  int64_t first_row_ = 0;  // index along row_dim_ at which the rectangle starts in the whole tensor
  std::vector<TensorPart> parts_;
};

// Makes the checks that depend only on the description of the parameter and on the keys, so that all ranks find the
// same error.
Status CheckParts(const ParamDesc& desc, const Settings& settings) {
  if (settings.method == Method::kShampoo && settings.grafting == Grafting::kNone && HasRole(settings, desc)) {
    return Invalid("role is ", NameOf(desc.role),
                   ", but grafting=none: expected the role hidden, or another value of the key grafting, because "
                   "neither preconditioning nor grafting would apply to the parameter. To ignore all roles, set "
                   "route=off");
  }
  const Shape tensor = StackedTensorShape(desc.shape, desc.stack_dims);
  if (settings.method == Method::kMuon && settings.route == Route::kOff && tensor.ndim < 2) {
    return Invalid("method muon needs a matrix, and ", desc.stack_dims > 0 ? "a stacked tensor" : "the parameter",
                   " has the shape ", ShapeText(tensor),
                   ": put the parameter in a group with method=adam, or set route=auto");
  }
  if (desc.form != ShardForm::kFlat || desc.row_splits.empty() || RowDim(tensor, desc.fan) == 0) return {};
  return Invalid(
      "row_splits with fan in_out: a flat shard is not supported with shard_mode=local: expected shard_mode=gather, or "
      "rectangular shards");
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

int RowDim(const Shape& tensor, Fan fan) { return fan == Fan::kInOut ? std::max(tensor.ndim - 1, 0) : 0; }

std::vector<TensorPart> TensorParts(const std::vector<int64_t>& splits, int64_t rows) {
  if (splits.empty()) return {{0, rows}};
  std::vector<TensorPart> parts;
  for (int64_t first = 0; first < rows;) {
    const int64_t count = splits.size() == 1 ? splits[0] : splits[parts.size()];
    parts.push_back({first, count});
    first += count;
  }
  return parts;
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

Shape MergeDims(const Shape& shape, int64_t max_dim, int64_t min_dim, int64_t skip_size, uint32_t* skipped) {
  Shape squeezed;
  for (const int64_t dim : shape.View()) {
    if (dim != 1) squeezed.Append(dim);
  }
  if (squeezed.ndim == 0) squeezed.Append(1);
  DimMerger merger(max_dim, skip_size);
  const bool from_right = min_dim > 0;
  if (from_right) {
    MergeSmall(squeezed, min_dim, &merger);
  } else {
    MergeAll(squeezed, &merger);
  }
  const Shape found = merger.shape();
  Shape merged = found;
  uint32_t long_dims = 0;
  for (int k = 0; k < found.ndim; ++k) {
    const int from = from_right ? found.ndim - 1 - k : k;
    merged[k] = found[from];
    if (IsSkipped(merger.skipped(), from)) long_dims |= 1U << k;
  }
  if (skipped != nullptr) *skipped = long_dims;
  return merged;
}

bool CountBlocks(const Shape& shape, int64_t max_dim, int64_t* count, uint32_t skipped) {
  Shape counts = shape;
  for (int dim = 0; dim < shape.ndim; ++dim)
    counts[dim] = IsSkipped(skipped, dim) ? 1 : ChunkCount(shape[dim], max_dim);
  return CheckedProduct(counts, count);
}

std::vector<TensorBlock> SplitBlocks(const Shape& shape, int64_t max_dim, uint32_t skipped) {
  const Shape tensor = shape.ndim > 0 ? shape : Shape::Of({1});
  Shape chunk = tensor;
  for (int dim = 0; dim < chunk.ndim; ++dim) {
    if (!IsSkipped(skipped, dim)) chunk[dim] = max_dim;
  }
  return SplitInChunks(tensor, chunk);
}

std::vector<TensorBlock> SplitElementwise(const Shape& shape) {
  const Shape tensor = shape.ndim > 0 ? shape : Shape::Of({1});
  return SplitInChunks(tensor, ElementwiseChunk(tensor));
}

Status AppendBlocks(const Param& param, const Settings& settings, std::vector<Block>* blocks) {
  const ParamDesc& desc = param.desc;
  SHAMPOO_RETURN_IF_ERROR(CheckParts(desc, settings));
  if (param.elements == 0) return {};
  const bool flat = desc.form == ShardForm::kFlat;
  const Shape& shape = desc.form == ShardForm::kRectangle ? desc.local_shape : desc.shape;
  const int64_t start = flat ? desc.flat_offset : 0;
  const int64_t end = start + param.elements;
  const int64_t stacked = CountStack(shape, desc.stack_dims, start, end);
  if (stacked > kMaxBlocks) {
    return Invalid("stack_dims is ", desc.stack_dims, ": the shape ", ShapeText(shape), " stacks more than ",
                   kMaxBlocks, " tensors; use a smaller stack_dims");
  }
  const Shape held = StackedTensorShape(shape, desc.stack_dims);
  const Shape tensor = StackedTensorShape(desc.shape, desc.stack_dims);
  PartAppender parts(param, settings, tensor, blocks);
  if (parts.count() > kMaxBlocks / stacked) {
    return Invalid("row_splits divides each stacked tensor into ", parts.count(),
                   " parts, and the number of stacked tensors is ", stacked, ": expected at most ", kMaxBlocks,
                   " parts in total; use larger sizes in row_splits, or a smaller stack_dims");
  }
  for (const StackedRange& range : SplitStack(shape, desc.stack_dims, start, end)) {
    SHAMPOO_RETURN_IF_ERROR(flat ? parts.AppendFlat(range) : parts.AppendRectangle(held, range.offset_in_shard));
  }
  return {};
}

}  // namespace shampoo
