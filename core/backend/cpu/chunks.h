// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/convert.h"
#include "core/base/tiles.h"
#include "core/plan/block.h"

namespace shampoo {

// Number of elements that an elementwise pass processes at a time. It is small enough that all operands stay in the
// first-level cache, and large enough that a switch over dtypes costs nothing.
inline constexpr int64_t kChunkElements = 512;

// A range of elements of a block, counted in row-major order.
struct Range {
  int64_t begin;
  int64_t end;
};

// Calls work(first, count) for consecutive chunks of a range.
template <typename Work>
void ForEachChunk(const Range& range, Work&& work) {
  for (int64_t first = range.begin; first < range.end; first += kChunkElements) {
    work(first, range.end - first < kChunkElements ? range.end - first : kChunkElements);
  }
}

// An elementwise pass over n elements is divided into at most kMaxParts parts. Each part is so large that computing it
// on another thread saves time.
inline constexpr int64_t kMaxParts = 64;
inline int64_t PartCount(int64_t n) {
  const int64_t worth = n >> 16;
  return worth < 1 ? 1 : worth < kMaxParts ? worth : kMaxParts;
}
inline Range PartAt(int64_t n, int64_t i) {
  const int64_t count = PartCount(n);
  const int64_t whole = (n / count + 15) / 16 * 16;
  const int64_t begin = i * whole < n ? i * whole : n;
  return {begin, i + 1 == count || begin + whole > n ? n : begin + whole};
}

// Returns the sum of work(range) over all parts of n elements, added in a fixed order.
template <typename Work>
double SumOverParts(int64_t n, Tiles* tiles, Work&& work) {
  const int64_t count = PartCount(n);
  if (count == 1) return work(Range{0, n});
  double sums[kMaxParts] = {};
  tiles->ForEach(count, [&](int64_t i) { sums[i] = work(PartAt(n, i)); });
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += sums[i];
  return sum;
}

// Returns the strides, in elements, of a dense row-major array with the shape of the block.
inline std::array<int64_t, kMaxDims> DenseStrides(const Block& block) {
  std::array<int64_t, kMaxDims> stride{};
  int64_t next = 1;
  for (int k = block.order() - 1; k >= 0; --k) {
    stride[static_cast<size_t>(k)] = next;
    next *= block.shape[k];
  }
  return stride;
}

class BlockRounding;
// Rounds elements [first, first + count) of a block, and stores them. If `rounding` is nullptr, rounds to nearest.
template <typename Real>
void StoreRounded(const BlockRounding* rounding, const Real* from, void* to, Dtype dtype, int64_t first, int64_t count);

// A vector of any dtype that is read as Real, chunk by chunk. Nothing is copied if the dtype is Real.
template <typename Real>
class Operand {
 public:
  Operand(const void* base, Dtype dtype) : base_(base), dtype_(dtype) {}

  // Returns elements [first, first + count). count: at most kChunkElements. The result is valid until the next call.
  const Real* Read(int64_t first, int64_t count) {
    const void* at = ElementAt(base_, dtype_, first);
    if (dtype_ == DtypeOf<Real>()) return static_cast<const Real*>(at);
    Widen(at, dtype_, buffer_, count);
    return buffer_;
  }

 protected:
  const void* base_;
  Dtype dtype_;
  Real buffer_[kChunkElements];
};

// A vector of any dtype that is read and written as Real, chunk by chunk.
template <typename Real>
class MutableOperand : public Operand<Real> {
 public:
  // rounding: how Close() rounds. If it is nullptr, Close() rounds to nearest.
  MutableOperand(void* base, Dtype dtype, const BlockRounding* rounding = nullptr)
      : Operand<Real>(base, dtype), target_(base), rounding_(rounding) {}

  // Returns the old elements as Real, for the caller to change. Close() stores the changed elements.
  Real* Open(int64_t first, int64_t count) { return const_cast<Real*>(this->Read(first, count)); }
  // Returns memory for new elements. Close() stores them.
  Real* OpenNew(int64_t first) {
    if (this->dtype_ == DtypeOf<Real>()) return static_cast<Real*>(ElementAt(target_, this->dtype_, first));
    return this->buffer_;
  }
  // Stores elements [first, first + count), which the last Open() or OpenNew() returned. Each element is rounded once.
  void Close(int64_t first, int64_t count) {
    if (this->dtype_ == DtypeOf<Real>()) return;
    StoreRounded(rounding_, this->buffer_, ElementAt(target_, this->dtype_, first), this->dtype_, first, count);
  }

 private:
  void* target_;
  const BlockRounding* rounding_;
};

}  // namespace shampoo
