// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "core/backend/cpu/chunks.h"
#include "core/plan/shape.h"

namespace shampoo {

// A block's elements in memory that is not its own: where the view begins, and its strides.
struct BlockView {
  const Shape* shape;
  const std::array<int64_t, kMaxDims>* stride;
  int64_t offset;

  static BlockView Of(const Block& block) { return {&block.shape, &block.stride, block.offset}; }
};

// work(first, count) for consecutive stretches of a range of a view whose neighbours are neighbours in memory for `run`
// elements: long runs are not crossed, so that nothing needs to be put together.
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

// As Operand, for a strided view, by stretches of the block's elements in row-major order. A stretch that is in one
// piece and of dtype Real is used where it lies; others are put together in a buffer, so that short rows cost little.
template <typename Real>
class StridedOperand {
 public:
  StridedOperand(const void* base, Dtype dtype, const BlockView& view)
      : base_(base), dtype_(dtype), view_(view), run_(RunLength(*view.shape, *view.stride)) {}

  int64_t run() const { return run_; }

  const Real* Read(int64_t first, int64_t count) {
    const int64_t direct = InOnePiece(first, count);
    if (direct >= 0) {
      const void* const at = ElementAt(base_, dtype_, direct);
      if (dtype_ == DtypeOf<Real>()) return static_cast<const Real*>(at);
      Widen(at, dtype_, buffer_, count);
      return buffer_;
    }
    ForEachPiece(first, count, [&](int64_t from, int64_t to, int64_t length) {
      Widen(ElementAt(base_, dtype_, from), dtype_, buffer_ + to, length);
    });
    return buffer_;
  }

 protected:
  // The first element's place, or -1.
  int64_t InOnePiece(int64_t first, int64_t count) const {
    if (first + count <= run_) return view_.offset + first;  // the first run, which often is the whole block
    if (first % run_ + count > run_) return -1;
    return view_.offset + OffsetAt(*view_.shape, *view_.stride, first);
  }
  // work(place of a piece, its place in the stretch, its length)
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

template <typename Real>
class StridedOutput : public StridedOperand<Real> {
 public:
  StridedOutput(void* base, Dtype dtype, const BlockView& view)
      : StridedOperand<Real>(base, dtype, view), target_(base) {}

  // Room for new elements.
  Real* OpenNew(int64_t first, int64_t count) {
    const int64_t direct = this->dtype_ == DtypeOf<Real>() ? this->InOnePiece(first, count) : -1;
    return direct >= 0 ? static_cast<Real*>(ElementAt(target_, this->dtype_, direct)) : this->buffer_;
  }
  // Stores what OpenNew gave out: each element rounded once.
  void Close(const Real* opened, int64_t first, int64_t count) {
    if (opened != this->buffer_) return;
    this->ForEachPiece(first, count, [&](int64_t to, int64_t from, int64_t length) {
      Narrow(opened + from, ElementAt(target_, this->dtype_, to), this->dtype_, length);
    });
  }

 private:
  void* target_;
};

}  // namespace shampoo
