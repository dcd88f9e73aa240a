// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/block_place.h"

#include <utility>
#include <vector>

namespace shampoo {
namespace {

bool Equal(const Region& a, const Region& b) {
  return a.shape == b.shape && a.offset == b.offset && a.extent == b.extent;
}

// Returns the positions, in the flattened parameter, of the elements in `range` of a block. They are returned as runs
// of consecutive positions: pairs of the first position and the length. Adjacent runs are merged.
std::vector<std::pair<int64_t, int64_t>> RunsOf(const BlockPlace& place, const DenseRange& range) {
  std::vector<std::pair<int64_t, int64_t>> runs;
  ForEachRunOf(place, range, [&](int64_t, int64_t at, int64_t count) {
    if (!runs.empty() && runs.back().first + runs.back().second == at) {
      runs.back().second += count;
    } else {
      runs.emplace_back(at, count);
    }
  });
  return runs;
}

}  // namespace

BlockPlace BlockPlace::Of(const ParamDesc& desc, const Block& block) {
  const int64_t elements = desc.shape.Product();
  return {block.shape, block.tensor_stride, block.tensor_offset,
          block.piece_of_shard ? Region::Of(desc) : Region::Interval(0, elements, elements)};
}

int64_t BlockPlace::first() const {
  const PieceView view(piece);
  return view.offset + OffsetAt(view.shape, view.stride, offset);
}

const char* BlockPlace::FindMistake(int64_t param_elements) const {
  int64_t product = 0;
  const auto has_elements = [&product](const Shape& dims) {
    for (const int64_t dim : dims.View()) {
      if (dim < 1) return false;
    }
    return dims.ndim >= 1 && CheckedProduct(dims, &product);
  };
  if (!has_elements(piece.shape) || product != param_elements) return "its parameter has a different size";
  if (!has_elements(piece.extent)) return "its piece is empty";
  const int64_t piece_elements = product;
  if (piece.offset.ndim != piece.shape.ndim || piece.extent.ndim != piece.shape.ndim)
    return "its piece has the wrong number of dims";
  for (int k = 0; k < piece.shape.ndim; ++k) {
    if (piece.offset[k] < 0 || piece.extent[k] > piece.shape[k] || piece.offset[k] > piece.shape[k] - piece.extent[k]) {
      return "its piece is not within the parameter";
    }
  }
  if (!has_elements(shape) || offset < 0 || offset >= piece_elements) {
    return "its shape is empty, or its offset is not within its piece";
  }
  // CountBefore() requires a last stride of 1.
  if (stride[static_cast<size_t>(shape.ndim) - 1] != 1) return "its last stride is not 1";
  // Rows must not overlap, and the last element must be within the piece.
  int64_t room = piece_elements - offset - 1;
  for (int k = 0; k < shape.ndim; ++k) {
    const int64_t step = stride[static_cast<size_t>(k)];
    if (step < 1 || shape[k] - 1 > room / step) return "its strides are below 1 or leave its piece";
    room -= (shape[k] - 1) * step;
    if (k + 1 == shape.ndim) continue;
    const int64_t inner = stride[static_cast<size_t>(k) + 1];
    if (inner < 1 || shape[k + 1] > step / inner) return "its strides are below 1 or make rows overlap";
  }
  return nullptr;
}

DenseRange Within(const BlockPlace& place, int64_t first, int64_t count) {
  const PieceView piece(place.piece);
  const auto before = [&](int64_t position) {
    const int64_t local = CountBefore(piece.shape, piece.stride, position - piece.offset);
    return CountBefore(place.shape, place.stride, local - place.offset);
  };
  return {before(first), before(first + count)};
}

bool SamePlace(const BlockPlace& a, const BlockPlace& b) {
  if (a.shape != b.shape) return false;
  if (a.offset == b.offset && a.stride == b.stride && Equal(a.piece, b.piece)) return true;
  if (a.first() != b.first()) return false;
  // Compare a limited number of elements at a time, to limit memory: there may be as many runs as elements.
  constexpr int64_t kChunkElements = 1 << 14;
  const int64_t elements = a.elements();
  for (int64_t begin = 0; begin < elements; begin += kChunkElements) {
    const DenseRange chunk{begin, std::min(elements, begin + kChunkElements)};
    if (RunsOf(a, chunk) != RunsOf(b, chunk)) return false;
  }
  return true;
}

}  // namespace shampoo
