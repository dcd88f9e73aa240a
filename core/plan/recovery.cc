// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/recovery.h"

#include <array>
#include <utility>

namespace shampoo {
namespace {

class Recovery {
 public:
  explicit Recovery(const Shape& shape) : shape_(shape), strides_(RowMajorStrides(shape)) {}

  // [start, end) counts within one tensor of the dims from `dim` on. The innermost stride is 1, which leaves no
  // remainder: the recursion ends there at the latest.
  void Cut(int dim, int64_t start, int64_t end) {
    if (start == end) return;
    const int64_t stride = strides_[static_cast<size_t>(dim)];
    const int64_t first_whole = start / stride + (start % stride != 0 ? 1 : 0);
    const int64_t end_whole = end / stride;
    if (first_whole > end_whole) {  // start and end lie inside the same slice
      Cut(dim + 1, start - end_whole * stride, end - end_whole * stride);
      return;
    }
    if (start % stride != 0) Cut(dim + 1, start % stride, stride);
    if (first_whole < end_whole) {
      Shape centre = shape_.DropFront(dim);
      centre[0] = end_whole - first_whole;
      Add(centre);
    }
    if (end % stride != 0) Cut(dim + 1, 0, end % stride);
  }

  void Add(const Shape& shape) {
    pieces_.push_back({covered_, shape});
    covered_ += shape.Product();
  }

  std::vector<Piece> Take() { return std::move(pieces_); }

 private:
  const Shape& shape_;
  std::array<int64_t, kMaxDims> strides_;
  std::vector<Piece> pieces_;
  int64_t covered_ = 0;
};

}  // namespace

std::vector<Piece> RecoverPieces(const Shape& shape, int64_t start, int64_t end) {
  Recovery recovery(shape);
  if (shape.ndim > 0) {
    recovery.Cut(0, start, end);
  } else if (start < end) {
    recovery.Add(Shape::Of({1}));
  }
  return recovery.Take();
}

}  // namespace shampoo
