// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Specifications of small models that several tests use.
#pragma once

#include "tests/distributed/grid.h"

namespace shampoo_test {

inline RankSpec MatrixAndVectorSpec(const Keys& more = {}) {
  return {.keys = "max_preconditioner_dim=4 grafting=adam momentum=0.5" + more,
          .params = {{"matrix", {9, 7}}, {"vector", {6}}}};
}

// Methods other than shampoo.
inline const Keys kOtherMethods[] = {
    "method=soap precondition_frequency=2",
    "method=soap precondition_frequency=2 factor_correction=kl",
    "method=kl_shampoo precondition_frequency=2",
    "method=adam",
    "method=muon muon_local=true",
};
inline bool HasFactors(const Keys& method) { return method[0].second == "soap" || method[0].second == "kl_shampoo"; }

// Parameters of orders 0 to 3, in two groups with different keys.
inline RankSpec AllOrdersSpec(const Keys& more = {}) {
  // Only one shard rank holds `scalar`. With more than three shard ranks, some hold no part of `bias`.
  return {.keys =
              "max_preconditioner_dim=4 grafting=adam momentum=0.9 use_nesterov=true precondition_frequency=2 "
              "beta2=0.99 weight_decay=0.01" +
              more,
          .groups = {"lr=0.1 grafting=rmsprop max_preconditioner_dim=3 momentum=0.5"},
          .params = {{"matrix", {9, 7}}, {"vector", {17}, 1}, {"tensor", {3, 5, 4}}, {"bias", {3}, 1}, {"scalar", {}}}};
}

// Returns a specification with the parameters of AllOrdersSpec(). `method` is an element of kOtherMethods.
inline RankSpec AllOrdersSpecOf(const Keys& method, const Keys& more = {}) {
  RankSpec spec = AllOrdersSpec();
  spec.keys = method + "weight_decay=0.01" + more;
  spec.groups = {method + "lr=0.1"};
  if (HasFactors(method)) {
    spec.keys.emplace_back("max_preconditioner_dim", "4");
    spec.groups[0].emplace_back("max_preconditioner_dim", "3");
  }
  return spec;
}

}  // namespace shampoo_test
