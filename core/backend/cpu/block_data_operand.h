// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "core/backend/cpu/kronecker.h"
#include "core/backend/cpu/strided.h"

namespace shampoo {

// Reads a tensor that has the shape of a block (BlockData in kronecker.h), chunk by chunk. A contiguous chunk is read
// in place, and any other chunk is copied to a buffer.
template <typename Real>
class BlockDataOperand {
 public:
  BlockDataOperand(const BlockData<Real>& data, const Block& block)
      : stride_(block.order() == 2 ? std::array<int64_t, kMaxDims>{data.ld, 1} : DenseStrides(block)),
        operand_(data.data, DtypeOf<Real>(), {&block.shape, &stride_, 0}) {}
  BlockDataOperand(const BlockDataOperand&) = delete;
  BlockDataOperand& operator=(const BlockDataOperand&) = delete;

  // Returns the argument `run` for ForEachViewChunk().
  int64_t run() const { return operand_.run(); }
  const Real* Read(int64_t first, int64_t count) { return operand_.Read(first, count); }

 private:
  const std::array<int64_t, kMaxDims> stride_;
  StridedOperand<Real> operand_;
};

}  // namespace shampoo
