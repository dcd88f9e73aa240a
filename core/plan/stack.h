// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/shape.h"

namespace shampoo {

// What a flat range of a stack holds of one of its tensors: elements [start, end) of that tensor, never empty.
struct StackedRange {
  int64_t tensor;  // 0, 1, ... in memory order
  int64_t start;
  int64_t end;
  int64_t offset_in_shard;  // where this part starts within the flat range, in elements
};

// The leading `stack_dims` dims of a parameter only enumerate separate tensors of the remaining dims (which may be
// none: then each element is a tensor of its own). 0 <= stack_dims <= shape.ndim throughout.
Shape StackedTensorShape(const Shape& shape, int stack_dims);

// How many tensors of the stack the flat range [start, end) touches: the length of what SplitStack returns, for callers
// that want to refuse an absurd number first.
int64_t CountStack(const Shape& shape, int stack_dims, int64_t start, int64_t end);

// Cuts the flat range [start, end) at the borders of the stacked tensors, in memory order. The whole stack is
// [0, shape.Product()); an empty range gives nothing.
// Needs 0 <= start <= end <= shape.Product(), and no empty dims.
std::vector<StackedRange> SplitStack(const Shape& shape, int stack_dims, int64_t start, int64_t end);

}  // namespace shampoo
