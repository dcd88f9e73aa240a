// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <vector>

#include "core/base/status.h"
#include "core/plan/block.h"
#include "core/plan/region.h"

namespace shampoo {

// What each shard rank holds of one parameter.
class Cuts {
 public:
  // own: the parameter as this rank describes it. told: of other ranks, as far as the caller has told. Where nothing is
  // told, the rule that this rank's own cut follows. Fails if none is found, or if the shards do not hold each element
  // once. Needs a parameter with elements.
  static Status Find(const ParamDesc& own, int rank, int world, const std::map<int, ParamDesc>& told, Cuts* out);

  // Whether every rank holds all of it.
  bool everywhere() const { return rule_ == Rule::kWhole; }
  Region Of(int rank) const;
  // The same for equal cuts, however they are known.
  uint64_t Hash(int world) const;

 private:
  enum class Rule {
    kWhole,   // all of it on every rank
    kChunks,  // equal chunks of the flattened parameter, as far as they go
    kRows,    // equal chunks of dim 0, as far as they go
    kTold,
  };
  bool FollowRule(const ParamDesc& own, int rank, int world);
  Status CheckTold(const ParamDesc& own, int world) const;

  Rule rule_ = Rule::kWhole;
  int64_t elements_ = 0;
  int64_t rows_ = 0;   // of dim 0
  int64_t chunk_ = 0;  // elements or rows of each rank's part
  std::vector<Region> told_;
};

}  // namespace shampoo
