// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/region.h"

namespace shampoo {

Region Region::Stretch(int64_t first, int64_t count, int64_t elements) {
  return {Shape::Of({elements}), Shape::Of({first}), Shape::Of({count})};
}

Region Region::Rectangle(const Shape& shape, const Shape& offset, const Shape& extent) {
  if (shape.ndim == 0) return Stretch(0, 1, 1);
  Region region{Shape::Of({shape[0]}), Shape::Of({offset[0]}), Shape::Of({extent[0]})};
  for (int k = 1; k < shape.ndim; ++k) {
    const int last = region.shape.ndim - 1;
    if (extent[k] == shape[k]) {
      region.shape[last] *= shape[k];
      region.offset[last] *= shape[k];
      region.extent[last] *= shape[k];
    } else {
      region.shape.Append(shape[k]);
      region.offset.Append(offset[k]);
      region.extent.Append(extent[k]);
    }
  }
  return region;
}

Region Region::Of(const ParamDesc& desc) {
  if (desc.form == ShardForm::kRectangle) return Rectangle(desc.shape, desc.local_offset, desc.local_shape);
  const int64_t elements = desc.shape.Product();
  return desc.form == ShardForm::kFlat ? Stretch(desc.flat_offset, desc.flat_count, elements)
                                       : Stretch(0, elements, elements);
}

int64_t CountBefore(const Shape& shape, const std::array<int64_t, kMaxDims>& stride, int64_t position) {
  int64_t rest = position;
  int64_t count = 0;
  int64_t inner = shape.Product();
  for (int k = 0; k < shape.ndim && rest > 0; ++k) {
    inner /= shape[k];
    const int64_t whole = std::min(rest / stride[static_cast<size_t>(k)], shape[k]);
    count += whole * inner;
    if (whole == shape[k]) break;
    // Of a row that is not whole some elements may lie before, or all.
    rest -= whole * stride[static_cast<size_t>(k)];
  }
  return count;
}

int64_t CountBefore(const Block& block, int64_t position) {
  return CountBefore(block.shape, block.tensor_stride, position - block.tensor_offset);
}

int64_t CountIn(const Block& block, const Region& region) {
  if (region.is_stretch()) {
    return CountBefore(block, region.offset[0] + region.extent[0]) - CountBefore(block, region.offset[0]);
  }
  // Where rows of the block are parts of rows of the region's tensor, one look at a row may tell that none is in it.
  const int last = region.shape.ndim - 1;
  const int64_t width = region.shape[last];
  const int64_t column = block.tensor_offset % width;
  const int64_t run = RunLength(block.shape, block.tensor_stride);
  bool in_rows = column + run <= width;
  for (int k = 0; k < block.order(); ++k) {
    const int64_t stride = block.tensor_stride[static_cast<size_t>(k)];
    in_rows = in_rows && (stride < run || stride % width == 0 || block.shape[k] == 1);
  }
  const int64_t from = region.offset[last];
  if (in_rows && (column >= from + region.extent[last] || column + run <= from)) return 0;
  int64_t sum = 0;
  ForEachRunIn(block, region, 0, block.elements, [&sum](int64_t, int64_t, int64_t count) { sum += count; });
  return sum;
}

}  // namespace shampoo
