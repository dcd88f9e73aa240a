// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/merge.h"

namespace shampoo {

Shape MergeDims(const Shape& shape, int64_t max_dim) {
  Shape merged;
  for (const int64_t dim : shape.View()) {
    if (dim == 1) continue;
    // Divided, not multiplied: the product may not fit, its comparison with max_dim always does.
    if (merged.ndim > 0 && merged[merged.ndim - 1] <= max_dim / dim) {
      merged[merged.ndim - 1] *= dim;
    } else {
      merged.Append(dim);
    }
  }
  if (merged.ndim == 0) merged.Append(1);
  return merged;
}

}  // namespace shampoo
