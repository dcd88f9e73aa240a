// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/shard_layout.h"

#include "core/base/at.h"
#include "core/base/hash.h"
#include "core/base/text.h"

namespace shampoo {
namespace {

// The chunk of one rank when `total` elements or rows are divided into equal chunks. The chunks of the last ranks may
// be shorter or empty.
struct Chunk {
  int64_t first;
  int64_t count;
};
Chunk ChunkOf(int64_t total, int64_t chunk, int rank) {
  const int64_t first = std::min(total, chunk * rank);
  return {first, std::min(chunk, total - first)};
}

bool SameRegion(const Region& a, const Region& b) {
  return a.shape == b.shape && a.offset == b.offset && a.extent == b.extent;
}

bool Intersect(const Region& a, const Region& b) {
  for (int k = 0; k < a.shape.ndim; ++k) {
    if (a.offset[k] >= b.offset[k] + b.extent[k] || b.offset[k] >= a.offset[k] + a.extent[k]) return false;
  }
  return true;
}

// Returns the region of a shard. Unlike Region::Of(), does not merge dims of a rectangle, so that rectangles of
// different ranks can be compared.
Region Unmerged(const ParamDesc& desc) {
  if (desc.form == ShardForm::kRectangle && desc.shape.ndim > 0) {
    return {desc.shape, desc.local_offset, desc.local_shape};
  }
  return Region::Of(desc);
}

}  // namespace

Region Region::Interval(int64_t first, int64_t count, int64_t elements) {
  return {Shape::Of({elements}), Shape::Of({first}), Shape::Of({count})};
}

Region Region::Rectangle(const Shape& shape, const Shape& offset, const Shape& extent) {
  if (shape.ndim == 0) return Interval(0, 1, 1);
  Region region{Shape::Of({shape[0]}), Shape::Of({offset[0]}), Shape::Of({extent[0]})};
  for (int k = 1; k < shape.ndim; ++k) {
    const int last = region.shape.ndim - 1;
    if (extent[k] == shape[k]) {
      region.shape[last] *= shape[k];
      region.offset[last] *= shape[k];
      region.extent[last] *= shape[k];
    } else {
      region.shape.Append(shape[k]);
      region.offset.Append(offset[k]);
      region.extent.Append(extent[k]);
    }
  }
  return region;
}

Region Region::Of(const ParamDesc& desc) {
  if (desc.form == ShardForm::kRectangle) return Rectangle(desc.shape, desc.local_offset, desc.local_shape);
  const int64_t elements = desc.shape.Product();
  return desc.form == ShardForm::kFlat ? Interval(desc.flat_offset, desc.flat_count, elements)
                                       : Interval(0, elements, elements);
}

Status ShardLayout::Find(const ParamDesc& own, int rank, int world, const std::map<int, ParamDesc>& others,
                         ShardLayout* out) {
  ShardLayout layout;
  layout.elements_ = own.shape.Product();
  layout.rows_ = own.shape.ndim > 0 ? own.shape[0] : 1;
  const bool nothing_added = others.empty() || (others.size() == 1 && others.begin()->first == rank);
  if (nothing_added && layout.FollowRule(own, rank, world)) {
    *out = std::move(layout);
    return {};
  }
  std::string missing;
  int count = 0;
  std::vector<ParamDesc> all;
  for (int r = 0; r < world; ++r) {
    const auto found = others.find(r);
    if (r == rank) {
      all.push_back(own);
    } else if (found != others.end()) {
      all.push_back(found->second);
    } else if (++count <= 4) {
      missing += Cat(count > 1 ? ", " : "", r);
    }
  }
  if (count > 0) {
    return Invalid(
        "shard_mode=gather needs the shards of all ranks; missing: shard rank", count > 1 ? "s " : " ", missing,
        count > 4 ? Cat(" and ", count - 4, " more") : "",
        nothing_added
            ? ". The other shards cannot be derived from this rank's shard, which is neither an equal chunk of the "
              "flattened parameter, nor an equal chunk of dim 0, nor the whole parameter"
            : "",
        ". Describe the missing shards with shampoo_plan_add_shard");
  }
  const bool everywhere = std::all_of(
      all.begin(), all.end(), [&](const ParamDesc& desc) { return Region::Of(desc).elements() == layout.elements_; });
  if (!everywhere) {
    layout.rule_ = Rule::kListed;
    for (const ParamDesc& desc : all) layout.regions_.push_back(Unmerged(desc));
    SHAMPOO_RETURN_IF_ERROR(layout.CheckListed(own, world));
    for (size_t r = 0; r < all.size(); ++r) layout.regions_[r] = Region::Of(all[r]);
  }
  *out = std::move(layout);
  return {};
}

// Sets rule_ to a Rule that this rank's shard satisfies. If there is none, returns false, and rule_ is undefined. The
// Rule that the form of the shard suggests is tried first. An empty shard satisfies every Rule that assigns no elements
// to this rank.
bool ShardLayout::FollowRule(const ParamDesc& own, int rank, int world) {
  if (own.form == ShardForm::kWhole || (own.form == ShardForm::kRectangle && own.shape.ndim == 0)) return true;
  const Region region = Region::Of(own);
  const auto follows = [&](Rule rule, int64_t total) {
    rule_ = rule;
    chunk_ = (total + world - 1) / world;
    const Region expected = Of(rank);
    return region.elements() == 0 ? expected.elements() == 0 : SameRegion(region, expected);
  };
  if (own.form == ShardForm::kFlat) return follows(Rule::kChunks, elements_) || follows(Rule::kRows, rows_);
  return follows(Rule::kRows, rows_) || follows(Rule::kChunks, elements_);
}

Status ShardLayout::CheckListed(const ParamDesc& own, int world) const {
  std::vector<int> ranks;  // the ranks that hold elements
  int64_t sum = 0;
  for (int r = 0; r < world; ++r) {
    const Region& region = At(regions_, r);
    if (region.elements() == 0) continue;
    sum += region.elements();
    if (!ranks.empty() && region.shape != At(regions_, ranks[0]).shape) {
      return Invalid("shard rank ", r, " has a different shard form than shard rank ", ranks[0],
                     ": shard_mode=gather accepts flat shards or rectangles of a parameter, not both");
    }
    ranks.push_back(r);
  }
  // The ranks are sorted by the first rows of their regions. Each region is compared only with those later regions that
  // begin before its last row ends.
  const auto first_row = [this](int r) { return At(regions_, r).offset[0]; };
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return first_row(a) < first_row(b); });
  for (size_t i = 0; i < ranks.size(); ++i) {
    const Region& region = At(regions_, ranks[i]);
    for (size_t j = i + 1; j < ranks.size() && first_row(ranks[j]) < region.offset[0] + region.extent[0]; ++j) {
      if (!Intersect(region, At(regions_, ranks[j]))) continue;
      return Invalid("the shards of shard ranks ", std::min(ranks[i], ranks[j]), " and ", std::max(ranks[i], ranks[j]),
                     " overlap: with shard_mode=gather, each element must be on exactly one shard rank, or every "
                     "shard rank must hold the whole parameter");
    }
  }
  if (sum == elements_) return {};
  return Invalid("the shards of all shard ranks together hold ", sum, " of ", elements_, " elements of \"", own.name,
                 "\": with shard_mode=gather, each element must be on exactly one shard rank");
}

Region ShardLayout::Of(int rank) const {
  switch (rule_) {
    case Rule::kChunks: {
      const Chunk chunk = ChunkOf(elements_, chunk_, rank);
      return Region::Interval(chunk.first, chunk.count, elements_);
    }
    case Rule::kRows: {
      const Chunk chunk = ChunkOf(rows_, chunk_, rank);
      const int64_t in_row = elements_ / rows_;
      return Region::Interval(chunk.first * in_row, chunk.count * in_row, elements_);
    }
    case Rule::kListed:
      return At(regions_, rank);
    case Rule::kWhole:
      break;
  }
  return Region::Interval(0, elements_, elements_);
}

uint64_t ShardLayout::Hash(int world) const {
  uint64_t hash = everywhere() ? 1 : 2;
  for (int r = 0; r < world && !everywhere(); ++r) {
    const Region region = Of(r);
    const int64_t ndim = region.elements() > 0 ? region.shape.ndim : 0;
    hash = HashBytes(&ndim, sizeof ndim, hash);
    if (ndim == 0) continue;
    hash = HashBytes(region.offset.dims.data(), sizeof region.offset.dims, hash);
    hash = HashBytes(region.extent.dims.data(), sizeof region.extent.dims, hash);
  }
  return hash;
}

int64_t CountBefore(const Block& block, int64_t position) {
  return CountBefore(block.shape, block.tensor_stride, position - block.tensor_offset);
}

int64_t CountIn(const Block& block, const Region& region) {
  if (region.is_interval()) {
    return CountBefore(block, region.offset[0] + region.extent[0]) - CountBefore(block, region.offset[0]);
  }
  // Fast path: the region contains no element of the block if the region and the block have no common column. Columns
  // are compared only if each row of the block is within one row of the tensor, and all rows of the block have the same
  // columns.
  const int last = region.shape.ndim - 1;
  const int64_t width = region.shape[last];
  const int64_t column = block.tensor_offset % width;
  const int64_t run = RunLength(block.shape, block.tensor_stride);
  bool in_rows = column + run <= width;
  for (int k = 0; k < block.order(); ++k) {
    const int64_t stride = At(block.tensor_stride, k);
    in_rows = in_rows && (stride < run || stride % width == 0 || block.shape[k] == 1);
  }
  const int64_t from = region.offset[last];
  if (in_rows && (column >= from + region.extent[last] || column + run <= from)) return 0;
  int64_t sum = 0;
  ForEachRunIn(block, region, 0, block.elements, [&sum](int64_t, int64_t, int64_t count) { sum += count; });
  return sum;
}

}  // namespace shampoo
