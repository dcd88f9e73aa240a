// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/backend/cpu/chunks.h"
#include "core/plan/shape.h"

namespace shampoo {

// A view of a block's elements in a larger buffer: the shape and the strides of the view, and the position of its
// first element.
struct BlockView {
  const Shape* shape;
  const std::array<int64_t, kMaxDims>* stride;
  int64_t offset;

  static BlockView Of(const Block& block) { return {&block.shape, &block.stride, block.offset}; }
};

// Divides a range of a view into consecutive chunks, and calls work(first, count) for each. In memory, the view
// consists of runs of `run` contiguous elements. If `run` is at least kLongRun, each chunk is within one run and is
// therefore contiguous.
template <typename Work>
void ForEachViewChunk(int64_t run, const Range& range, Work&& work) {
  constexpr int64_t kLongRun = 128;
  if (range.end <= run) return ForEachChunk(range, work);
  for (int64_t first = range.begin; first < range.end;) {
    int64_t count = range.end - first < kChunkElements ? range.end - first : kChunkElements;
    const int64_t left = run - first % run;
    if (run >= kLongRun && left < count) count = left;
    work(first, count);
    first += count;
  }
}

// Reads the elements of a strided view as Real, chunk by chunk, in the row-major order of the view. A chunk that is
// contiguous and of dtype Real is used in place. Any other chunk is copied to a buffer. For a contiguous vector, use
// Operand (chunks.h) instead.
template <typename Real>
class StridedOperand {
 public:
  StridedOperand(const void* base, Dtype dtype, const BlockView& view)
      : base_(base), dtype_(dtype), view_(view), run_(RunLength(*view.shape, *view.stride)) {}

  int64_t run() const { return run_; }

  // Returns `count` elements of the view, from element `first` on. Valid until the next call.
  const Real* Read(int64_t first, int64_t count) {
    const int64_t direct = InOnePiece(first, count);
    if (direct >= 0) {
      const void* const at = ElementAt(base_, dtype_, direct);
      if (dtype_ == DtypeOf<Real>()) return static_cast<const Real*>(at);
      Widen(at, dtype_, buffer_, count);
      return buffer_;
    }
    if (dtype_ == DtypeOf<Real>()) {
      const Real* const elements = static_cast<const Real*>(base_);
      ForEachPiece(first, count, [&](int64_t from, int64_t to, int64_t length) {
        std::copy_n(elements + from, length, buffer_ + to);
      });
    } else {
      ForEachPiece(first, count, [&](int64_t from, int64_t to, int64_t length) {
        Widen(ElementAt(base_, dtype_, from), dtype_, buffer_ + to, length);
      });
    }
    return buffer_;
  }

 protected:
  // If the chunk is contiguous, returns the position of its first element in the array at base_. Otherwise returns -1.
  int64_t InOnePiece(int64_t first, int64_t count) const {
    if (first + count <= run_) return view_.offset + first;  // the first run, which is often the whole block
    if (first % run_ + count > run_) return -1;
    return view_.offset + OffsetAt(*view_.shape, *view_.stride, first);
  }
  // Calls work(from, to, length) for each contiguous piece of a chunk. from: position in the array at base_. to:
  // position in the chunk.
  template <typename Work>
  void ForEachPiece(int64_t first, int64_t count, Work&& work) const {
    ForEachRun(*view_.shape, *view_.stride, first, first + count,
               [&](int64_t from, int64_t dense, int64_t length) { work(view_.offset + from, dense - first, length); });
  }

  const void* base_;
  Dtype dtype_;
  BlockView view_;
  int64_t run_;
  Real buffer_[kChunkElements];
};

// A StridedOperand to which new elements can be written.
template <typename Real>
class StridedOutput : public StridedOperand<Real> {
 public:
  // rounding: as in MutableOperand (chunks.h). block_first: the position of the first element of the view within the
  // block.
  StridedOutput(void* base, Dtype dtype, const BlockView& view, const BlockRounding* rounding = nullptr,
                int64_t block_first = 0)
      : StridedOperand<Real>(base, dtype, view), target_(base), rounding_(rounding), block_first_(block_first) {}

  // Returns memory for new elements. Close() stores them.
  Real* OpenNew(int64_t first, int64_t count) {
    const int64_t direct = this->dtype_ == DtypeOf<Real>() ? this->InOnePiece(first, count) : -1;
    return direct >= 0 ? static_cast<Real*>(ElementAt(target_, this->dtype_, direct)) : this->buffer_;
  }
  // Stores the new elements in the view. opened: the memory that OpenNew() returned. Each element is rounded once.
  void Close(const Real* opened, int64_t first, int64_t count) {
    if (opened != this->buffer_) return;
    if (this->dtype_ == DtypeOf<Real>()) {
      Real* const elements = static_cast<Real*>(target_);
      return this->ForEachPiece(first, count, [&](int64_t to, int64_t from, int64_t length) {
        std::copy_n(opened + from, length, elements + to);
      });
    }
    this->ForEachPiece(first, count, [&](int64_t to, int64_t from, int64_t length) {
      StoreRounded(rounding_, opened + from, ElementAt(target_, this->dtype_, to), this->dtype_,
                   block_first_ + first + from, length);
    });
  }

 private:
  void* target_;
  const BlockRounding* rounding_;
  int64_t block_first_;
};

}  // namespace shampoo
