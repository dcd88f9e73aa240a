// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/stack.h"

#include <algorithm>
#include <cstddef>

namespace shampoo {

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

}  // namespace shampoo
