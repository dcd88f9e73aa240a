// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/plan/block_place.h"

namespace shampoo {

// The positions of a block's elements in the flattened parameter. BlockPlace describes the same positions for host
// code, which visits runs of elements. ElementPositions can be copied to a device, where each thread computes the
// positions of its own elements.
struct ElementPositions {
  // A strided view of an array. Dims of length 1 are dropped, and contiguous dims are merged. At least one dim remains.
  struct View {
    int32_t order;
    int64_t shape[kMaxDims];
    int64_t stride[kMaxDims];  // in elements
    int64_t offset;            // of the view's first element in the array, in elements

    // Returns the position in the array of element number i of the view. Elements are counted in row-major order.
    // Index: an unsigned type that can represent the number of elements. If 32 bits suffice, use a type of 32 bits,
    // because divisions of 64-bit numbers are slow on a device.
    template <typename Index>
    constexpr int64_t At(Index i) const {
      int64_t position = offset;
      for (int k = order - 1; k > 0; --k) {
        const auto extent = static_cast<Index>(shape[k]);
        position += static_cast<int64_t>(i % extent) * stride[k];
        i /= extent;
      }
      return position + static_cast<int64_t>(i) * stride[0];
    }
  };

  static ElementPositions Of(const BlockPlace& place);

  // Returns the position in the flattened parameter of element number i of the block.
  constexpr int64_t At(int64_t i) const {
    return piece.At(static_cast<uint64_t>(block.At(static_cast<uint32_t>(i))));  // i is below kLargestBlock
  }

  // The piece is the whole parameter, or the region of the parameter that one rank holds (BlockPlace).
  View block;  // the block, as a view of the piece
  View piece;  // the piece, as a view of the parameter
};

}  // namespace shampoo
