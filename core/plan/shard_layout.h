// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "core/base/status.h"
#include "core/plan/block.h"
#include "core/plan/shape.h"

// Determines which elements of a parameter each shard rank holds, and which of these elements belong to a block.
namespace shampoo {

// A rectangle of a row-major tensor: the elements that one rank holds. If `shape` has one dim after the merging that
// its comment describes, the elements of the rectangle are consecutive in the tensor.
struct Region {
  Shape shape;   // of the tensor; a dim that the rectangle covers completely is merged into the dim before it
  Shape offset;  // of the rectangle, in the merged dims
  Shape extent;  // of the rectangle, in the merged dims

  // Returns the region of elements [first, first + count) of a tensor with `elements` elements.
  static Region Interval(int64_t first, int64_t count, int64_t elements);
  // Returns the region of the rectangle at `offset` of shape `extent`. Requires that no dim of `shape` is 0.
  static Region Rectangle(const Shape& shape, const Shape& offset, const Shape& extent);
  // Returns the region of the shard that `desc` describes.
  static Region Of(const ParamDesc& desc);

  int64_t elements() const { return extent.Product(); }
  bool is_interval() const { return shape.ndim == 1; }
};

// The regions of one parameter, by shard rank.
class ShardLayout {
 public:
  // Finds the regions of all ranks. Requires that the parameter has elements.
  //   own     the parameter as this rank describes it
  //   others  the descriptions of other ranks' shards that the caller has added, by shard rank. If there are none, the
  //           layout follows the Rule that this rank's own shard satisfies.
  // Returns an error in three cases. First: `others` describes the shards of some other ranks, but not of all of them.
  // Second: `others` describes no other rank's shard, and this rank's own shard satisfies no Rule. Third: all shards
  // are described, some element is not on exactly one rank, and not every rank holds the whole parameter.
  static Status Find(const ParamDesc& own, int rank, int world, const std::map<int, ParamDesc>& others,
                     ShardLayout* out);

  // Returns whether every rank holds the whole parameter.
  bool everywhere() const { return rule_ == Rule::kWhole; }
  Region Of(int rank) const;
  // Returns a hash of the regions. Equal regions have equal hashes, even if the layouts have different rules.
  uint64_t Hash(int world) const;

 private:
  enum class Rule {
    kWhole,   // the whole parameter on every rank
    kChunks,  // equal chunks of the flattened parameter; those of the last ranks may be shorter or empty
    kRows,    // equal chunks of dim 0; those of the last ranks may be shorter or empty
    kListed,  // the regions in regions_
  };
  bool FollowRule(const ParamDesc& own, int rank, int world);
  Status CheckListed(const ParamDesc& own, int world) const;

  Rule rule_ = Rule::kWhole;
  int64_t elements_ = 0;
  int64_t rows_ = 0;             // length of dim 0
  int64_t chunk_ = 0;            // number of elements (kChunks) or rows (kRows) of a full chunk
  std::vector<Region> regions_;  // by rank
};

// Returns how many elements of a block precede a position in the tensor that was divided into blocks. position: an
// index of an element of the flattened tensor.
int64_t CountBefore(const Block& block, int64_t position);

// Returns how many elements of a block are in a region.
int64_t CountIn(const Block& block, const Region& region);

// Visits the elements that are both in the region and among elements [first, first + count) of the tensor, one run of
// consecutive elements at a time: visit(distance of the run from `first`, offset in the region's row-major order,
// number of elements).
template <typename Visit>
void ForEachOverlap(const Region& region, int64_t first, int64_t count, Visit&& visit) {
  const int last = region.shape.ndim - 1;
  const int64_t width = region.shape[last];
  const int64_t from = region.offset[last];
  const int64_t to = from + region.extent[last];
  for (int64_t done = 0; done < count;) {
    int64_t row = (first + done) / width;
    const int64_t column = first + done - row * width;
    const int64_t end = std::min(width, column + count - done);
    // The number of this row among the rows of the region, if the region contains the row.
    int64_t local_row = 0;
    int64_t stride = 1;
    bool inside = true;
    for (int k = last - 1; k >= 0; --k) {
      const int64_t index = row % region.shape[k] - region.offset[k];
      inside = inside && index >= 0 && index < region.extent[k];
      local_row += index * stride;
      stride *= region.extent[k];
      row /= region.shape[k];
    }
    const int64_t begin = std::max(column, from);
    const int64_t stop = std::min(end, to);
    if (inside && begin < stop) visit(done + begin - column, local_row * (to - from) + begin - from, stop - begin);
    done += end - column;
  }
}

// Visits the elements of a block that are in a region, one run of consecutive elements at a time:
// visit(offset in the dense block, offset in the region, number of elements). The runs come in the block's order.
// If the region is an interval, only `count` of these elements are visited, from number `first` on. Otherwise all of
// them are visited, and `first` and `count` have no effect.
template <typename Visit>
void ForEachRunIn(const Block& block, const Region& region, int64_t first, int64_t count, Visit&& visit) {
  // An interval of the tensor contains consecutive elements of the block.
  const bool interval = region.is_interval();
  const int64_t begin = interval ? CountBefore(block, region.offset[0]) + first : 0;
  const int64_t end = interval ? begin + count : block.elements;
  ForEachRun(block.shape, block.tensor_stride, begin, end, [&](int64_t from, int64_t dense, int64_t length) {
    ForEachOverlap(region, block.tensor_offset + from, length,
                   [&](int64_t after, int64_t local, int64_t n) { visit(dense + after, local, n); });
  });
}

}  // namespace shampoo
