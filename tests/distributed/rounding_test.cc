// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests that stochastic rounding gives bit-identical results on one rank and on several ranks.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/capture.h"
#include "tests/checkpoint/faults/files.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

RankSpec StochasticSpec(const Keys& method) {
  return {
      .keys = "lr=0.1 beta1=0.9 state_rounding=stochastic filtered_grad_dtype=bf16 on_block_mismatch=reset" + method,
      .params = {{"matrix", {9, 7}}, {"vector", {12}}, {"tensor", {6, 4, 2}}, {"large", {24, 20}}}};
}

const Keys kElementwise = "method=adam second_moment_dtype=bf16";
const Keys kMethods[] = {kElementwise, "method=shampoo grafting=adam grafting_dtype=bf16 precondition_frequency=2",
                         "method=soap second_moment_dtype=bf16 precondition_frequency=2",
                         "method=muon second_moment=element second_moment_dtype=bf16"};

// Saves a job of kind `first` after two steps, and continues it with a job of kind `second`. Checks that the parameters
// are bit-identical to those of one rank.
void CheckKinds(const Keys& method, const Kind& first, const Kind& second) {
  CAPTURE_ALL(method, first, second);
  const Scratch directory;
  Grid one(StochasticSpec(method), Kind{1, 1});
  Grid before(StochasticSpec(method), first);
  Grid after(StochasticSpec(method), second);
  for (Grid* const grid : {&one, &before, &after}) RequireCreate(grid);
  one.FillParams(1);
  before.FillParams(1);
  RunSteps(&one, 11, 12);
  RunSteps(&before, 11, 12);
  RequireSave(&before, directory.path());
  RequireLoad(&after, directory.path());
  for (int rank = 0; rank < after.world(); ++rank) {
    const Tensors part = PartOf(after.spec(rank).params, one[0].w);
    for (size_t p = 0; p < part.size(); ++p) std::copy(part[p].begin(), part[p].end(), after[rank].w[p].begin());
  }
  RunSteps(&one, 13, 15);
  RunSteps(&after, 13, 15);
  CHECK(after.AllHold(one[0].w));
}

TEST_CASE(
    "with stochastic rounding, a job that resumes with other numbers of replicas and shards is bit-identical to one "
    "rank") {
  for (const Keys& method : kMethods) {
    CheckKinds(method, Kind{8, 1}, Kind{1, 8, "gather"});
    CheckKinds(method, Kind{1, 1}, Kind{2, 4, "gather", false});
    CheckKinds(method, Kind{2, 2, "gather"}, Kind{3, 1});
  }
  CheckKinds(kElementwise, Kind{1, 8}, Kind{2, 4});
  CheckKinds(kElementwise, Kind{1, 3}, Kind{8, 1});
}

TEST_CASE("with stochastic rounding of states, any numbers of replicas and shards give the parameters of one rank") {
  RankSpec spec = {
      .keys = "method=adam lr=0.1 state_rounding=stochastic filtered_grad_dtype=bf16 second_moment_dtype=bf16",
      .params = {{"matrix", {9, 7}}, {"vector", {12}}, {"tensor", {3, 4, 2}}}};
  const auto run = [](Grid* grid) {
    RequireStart(grid);
    RunSteps(grid, 101, 103);
  };
  Grid one(spec, 1, 1);
  run(&one);
  spec.keys.emplace_back("rounding_seed", "1");
  Grid other(spec, 1, 1);
  run(&other);
  CHECK(!SameBits(one[0].w, other[0].w));
  for (const Kind kind : {Kind{2, 1}, Kind{1, 3}, Kind{2, 2}, Kind{1, 3, "gather"}, Kind{2, 2, "gather"}}) {
    for (const Division division : {Division::kFlat, Division::kRows}) {
      CAPTURE_ALL(kind, division == Division::kFlat);
      spec.keys.back() = {"shard_mode", kind.shard_mode};
      Grid grid(spec, kind.replicas, Divide(spec.params, division, kind.shards));
      run(&grid);
      CHECK(grid.AllHold(one[0].w));
    }
  }
}

}  // namespace
}  // namespace shampoo_test
