// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/block_place.h"

#include <utility>
#include <vector>

namespace shampoo {
namespace {

bool Equal(const Region& a, const Region& b) {
  return a.shape == b.shape && a.offset == b.offset && a.extent == b.extent;
}

// In as few runs as there can be.
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

Status BlockPlace::Check(int64_t param_elements) const {
  const auto malformed = [](const char* what) { return IoFailed("the place of a block is malformed: ", what); };
  int64_t product = 0;
  const auto has_elements = [&product](const Shape& dims) {
    for (const int64_t dim : dims.View()) {
      if (dim < 1) return false;
    }
    return dims.ndim >= 1 && CheckedProduct(dims, &product);
  };
  if (!has_elements(piece.shape) || product != param_elements) return malformed("its parameter has another size");
  if (!has_elements(piece.extent)) return malformed("its piece is empty");
  const int64_t piece_elements = product;
  if (piece.offset.ndim != piece.shape.ndim || piece.extent.ndim != piece.shape.ndim) return malformed("dims");
  for (int k = 0; k < piece.shape.ndim; ++k) {
    if (piece.offset[k] < 0 || piece.extent[k] > piece.shape[k] || piece.offset[k] > piece.shape[k] - piece.extent[k]) {
      return malformed("its piece does not lie in the parameter");
    }
  }
  if (!has_elements(shape) || offset < 0 || offset >= piece_elements) return malformed("its shape or offset");
  // As of any block; what is counted before a position is so counted right.
  if (stride[static_cast<size_t>(shape.ndim) - 1] != 1) return malformed("its last stride is not 1");
  // Each row of it lies before the next, and the last element in the piece.
  int64_t room = piece_elements - offset - 1;
  for (int k = 0; k < shape.ndim; ++k) {
    const int64_t step = stride[static_cast<size_t>(k)];
    if (step < 1 || shape[k] - 1 > room / step) return malformed("its strides");
    room -= (shape[k] - 1) * step;
    if (k + 1 == shape.ndim) continue;
    const int64_t inner = stride[static_cast<size_t>(k) + 1];
    if (inner < 1 || shape[k + 1] > step / inner) return malformed("its strides");
  }
  return {};
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
  // Part by part, as a block may be a run for each of its elements.
  constexpr int64_t kPart = 1 << 14;
  const int64_t elements = a.elements();
  for (int64_t begin = 0; begin < elements; begin += kPart) {
    const DenseRange part{begin, std::min(elements, begin + kPart)};
    if (RunsOf(a, part) != RunsOf(b, part)) return false;
  }
  return true;
}

}  // namespace shampoo
