// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/merge.h"

namespace shampoo {
namespace {

// Divided, not multiplied: the product may not fit, its comparison with max_dim always does.
bool Fits(int64_t a, int64_t b, int64_t max_dim) { return a <= max_dim / b; }

Shape MergeAll(const Shape& shape, int64_t max_dim) {
  Shape merged;
  for (const int64_t dim : shape.View()) {
    if (merged.ndim > 0 && Fits(merged[merged.ndim - 1], dim, max_dim)) {
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
    if (is_small && left > 2 && Fits(*last, shape[k], max_dim)) {
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

}  // namespace

Shape MergeDims(const Shape& shape, int64_t max_dim, int64_t min_dim) {
  Shape squeezed;
  for (const int64_t dim : shape.View()) {
    if (dim != 1) squeezed.Append(dim);
  }
  if (squeezed.ndim == 0) squeezed.Append(1);
  return min_dim == 0 ? MergeAll(squeezed, max_dim) : MergeSmall(squeezed, max_dim, min_dim);
}

}  // namespace shampoo
