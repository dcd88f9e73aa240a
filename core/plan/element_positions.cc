// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/element_positions.h"

namespace shampoo {
namespace {

ElementPositions::View ViewOf(const Shape& shape, const std::array<int64_t, kMaxDims>& stride, int64_t offset) {
  ElementPositions::View view{.order = 0, .shape = {}, .stride = {}, .offset = offset};
  for (int k = 0; k < shape.ndim; ++k) {
    if (shape[k] == 1) continue;
    const int64_t step = At(stride, k);
    const int last = view.order - 1;
    if (last >= 0 && view.stride[last] == step * shape[k]) {
      view.shape[last] *= shape[k];
      view.stride[last] = step;
    } else {
      view.shape[view.order] = shape[k];
      view.stride[view.order] = step;
      ++view.order;
    }
  }
  if (view.order > 0) return view;
  view.order = 1;
  view.shape[0] = view.stride[0] = 1;
  return view;
}

}  // namespace

ElementPositions ElementPositions::Of(const BlockPlace& place) {
  const PieceView piece(place.piece);
  return {ViewOf(place.shape, place.stride, place.offset), ViewOf(piece.shape, piece.stride, piece.offset)};
}

}  // namespace shampoo
