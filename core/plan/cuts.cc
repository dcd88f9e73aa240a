// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/cuts.h"

#include <algorithm>

#include "core/base/hash.h"
#include "core/base/text.h"

namespace shampoo {
namespace {

// Part `rank` of so many things, cut into equal chunks as far as they go.
struct Chunk {
  int64_t first;
  int64_t count;
};
Chunk ChunkOf(int64_t things, int64_t chunk, int rank) {
  const int64_t first = std::min(things, chunk * rank);
  return {first, std::min(chunk, things - first)};
}

bool Same(const Region& a, const Region& b) {
  return a.shape == b.shape && a.offset == b.offset && a.extent == b.extent;
}

bool Intersect(const Region& a, const Region& b) {
  for (int k = 0; k < a.shape.ndim; ++k) {
    if (a.offset[k] >= b.offset[k] + b.extent[k] || b.offset[k] >= a.offset[k] + a.extent[k]) return false;
  }
  return true;
}

// In the dims of the parameter, so that two can be compared.
Region Unmerged(const ParamDesc& desc) {
  if (desc.form == ShardForm::kRectangle && desc.shape.ndim > 0) {
    return {desc.shape, desc.local_offset, desc.local_shape};
  }
  return Region::Of(desc);
}

}  // namespace

Status Cuts::Find(const ParamDesc& own, int rank, int world, const std::map<int, ParamDesc>& told, Cuts* out) {
  Cuts cuts;
  cuts.elements_ = own.shape.Product();
  cuts.rows_ = own.shape.ndim > 0 ? own.shape[0] : 1;
  const bool nothing_told = told.empty() || (told.size() == 1 && told.begin()->first == rank);
  if (nothing_told && cuts.FollowRule(own, rank, world)) {
    *out = std::move(cuts);
    return {};
  }
  std::string missing;
  int count = 0;
  std::vector<ParamDesc> all;
  for (int r = 0; r < world; ++r) {
    const auto found = told.find(r);
    if (r == rank) {
      all.push_back(own);
    } else if (found != told.end()) {
      all.push_back(found->second);
    } else if (++count <= 4) {
      missing += Cat(count > 1 ? ", " : "", r);
    }
  }
  if (count > 0) {
    return Invalid("shard_mode gather needs to know what every shard rank holds, and nothing is known of shard rank",
                   count > 1 ? "s " : " ", missing, count > 4 ? ", ..." : "",
                   nothing_told ? ": this rank's own cut is none of equal chunks of the flattened parameter, of equal "
                                  "chunks of dim 0 or of the whole, so that the others do not follow from it"
                                : "",
                   ": tell it by shampoo_plan_add_shard");
  }
  const bool everywhere = std::all_of(
      all.begin(), all.end(), [&](const ParamDesc& desc) { return Region::Of(desc).elements() == cuts.elements_; });
  if (!everywhere) {
    cuts.rule_ = Rule::kTold;
    for (const ParamDesc& desc : all) cuts.told_.push_back(Unmerged(desc));
    SHAMPOO_RETURN_IF_ERROR(cuts.CheckTold(own, world));
    for (size_t r = 0; r < all.size(); ++r) cuts.told_[r] = Region::Of(all[r]);
  }
  *out = std::move(cuts);
  return {};
}

// Whether this rank's part is that of a rule. An empty part is one of the rule that its form suggests.
bool Cuts::FollowRule(const ParamDesc& own, int rank, int world) {
  if (own.form == ShardForm::kWhole || (own.form == ShardForm::kRectangle && own.shape.ndim == 0)) return true;
  const Region region = Region::Of(own);
  const auto follows = [&](Rule rule, int64_t things) {
    rule_ = rule;
    chunk_ = (things + world - 1) / world;
    const Region expected = Of(rank);
    return region.elements() == 0 ? expected.elements() == 0 : Same(region, expected);
  };
  if (own.form == ShardForm::kFlat) return follows(Rule::kChunks, elements_) || follows(Rule::kRows, rows_);
  return follows(Rule::kRows, rows_) || follows(Rule::kChunks, elements_);
}

Status Cuts::CheckTold(const ParamDesc& own, int world) const {
  std::vector<int> ranks;  // that hold something
  int64_t sum = 0;
  for (int r = 0; r < world; ++r) {
    const Region& region = told_[static_cast<size_t>(r)];
    if (region.elements() == 0) continue;
    sum += region.elements();
    if (!ranks.empty() && region.shape != told_[static_cast<size_t>(ranks[0])].shape) {
      return Invalid("shard rank ", r, " holds a shard of another form than shard rank ", ranks[0],
                     ": shard_mode gather takes flat shards or rectangles of a parameter, not both");
    }
    ranks.push_back(r);
  }
  // Along dim 0, so that few need be compared.
  const auto first_row = [this](int r) { return told_[static_cast<size_t>(r)].offset[0]; };
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return first_row(a) < first_row(b); });
  for (size_t i = 0; i < ranks.size(); ++i) {
    const Region& region = told_[static_cast<size_t>(ranks[i])];
    for (size_t j = i + 1; j < ranks.size() && first_row(ranks[j]) < region.offset[0] + region.extent[0]; ++j) {
      if (!Intersect(region, told_[static_cast<size_t>(ranks[j])])) continue;
      return Invalid("shard ranks ", std::min(ranks[i], ranks[j]), " and ", std::max(ranks[i], ranks[j]),
                     " hold the same elements: shard_mode gather needs each on one rank, or all of the parameter on "
                     "every rank");
    }
  }
  if (sum == elements_) return {};
  return Invalid("the shards of all ranks hold ", sum, " of ", elements_, " elements of \"", own.name,
                 "\": shard_mode gather needs each on one rank");
}

Region Cuts::Of(int rank) const {
  switch (rule_) {
    case Rule::kChunks: {
      const Chunk chunk = ChunkOf(elements_, chunk_, rank);
      return Region::Stretch(chunk.first, chunk.count, elements_);
    }
    case Rule::kRows: {
      const Chunk chunk = ChunkOf(rows_, chunk_, rank);
      const int64_t in_row = elements_ / rows_;
      return Region::Stretch(chunk.first * in_row, chunk.count * in_row, elements_);
    }
    case Rule::kTold:
      return told_[static_cast<size_t>(rank)];
    case Rule::kWhole:
      break;
  }
  return Region::Stretch(0, elements_, elements_);
}

uint64_t Cuts::Hash(int world) const {
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

}  // namespace shampoo
