// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/slice_pass.h"

#include <cstring>

#include "core/backend/cpu/apply_pass.h"
#include "core/base/convert.h"

namespace shampoo {
namespace {

// Calls visit(dense, local, packed, count) for each run of `count` contiguous elements in `range`. dense, local and
// packed are the positions of the run in the dense block, in the buffer of the rank that holds the slice, and in the
// packed slice.
template <typename Visit>
void ForEachRunOf(const SliceOfBlock& slice, const Range& range, Visit&& visit) {
  int64_t packed = range.begin;
  ForEachRunIn(*slice.block, *slice.region, range.begin, range.end - range.begin,
               [&](int64_t dense, int64_t local, int64_t count) {
                 visit(dense, local, packed, count);
                 packed += count;
               });
}

}  // namespace

void CopySlice(const SliceCopy& copy, const Range& range) {
  const SliceOfBlock& slice = copy.slice;
  const size_t size = copy.element_bytes;
  const auto* const from = static_cast<const char*>(copy.from);
  auto* const to = static_cast<char*>(copy.to);
  const auto move = [&](int64_t source, int64_t target, int64_t count) {
    std::memcpy(to + static_cast<size_t>(target) * size, from + static_cast<size_t>(source) * size,
                static_cast<size_t>(count) * size);
  };
  switch (copy.way) {
    case SliceCopy::Way::kHeldToPacked:
      ForEachRunOf(slice, range, [&](int64_t, int64_t local, int64_t packed, int64_t n) { move(local, packed, n); });
      break;
    case SliceCopy::Way::kPackedToBlock:
      ForEachRunOf(slice, range, [&](int64_t dense, int64_t, int64_t packed, int64_t n) { move(packed, dense, n); });
      break;
    case SliceCopy::Way::kBlockToPacked:
      if (from == nullptr) {
        if (range.begin == 0) MarkSkipped(to, size);  // the thread that has the first range writes the mark
        break;
      }
      ForEachRunOf(slice, range, [&](int64_t dense, int64_t, int64_t packed, int64_t n) { move(dense, packed, n); });
      // The mark of a skipped update is a NaN with certain bytes. If new parameters are sent instead of updates (key
      // communicate), the first element may have these bytes, too. Its sign is then changed: it remains a NaN, but
      // differs from the mark.
      if (range.begin == 0 && IsMarkedSkipped(to, size)) to[size - 1] &= 0x7f;
      break;
  }
}

void ApplySlice(const SliceItem& delivered, const Range& range) {
  const StepItem& item = delivered.item;
  const bool skipped = *item.update_skipped != 0;
  ForEachRunOf(delivered.slice, range, [&](int64_t dense, int64_t local, int64_t packed, int64_t count) {
    if (skipped) {
      WriteUnchangedRun(*item.param, *item.buffers, item.program->output, local, count);
    } else {
      const Shape shape = Shape::Of({count});
      const std::array<int64_t, kMaxDims> stride{1};
      ApplyReceived(item, ElementAt(item.exchange, item.block->exchange_dtype, packed), {&shape, &stride, local}, dense,
                    {0, count});
    }
  });
}

}  // namespace shampoo
