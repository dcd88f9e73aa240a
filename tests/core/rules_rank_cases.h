// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/rules/rank_difference.h"
#include "tests/core/rules_numbers.h"

// Cases of the rules by which ranks compare their inputs (core/rules/rank_difference.h).
// tests/core/rules_cases.h describes the form of the cases and lists the tables.
namespace shampoo {

// The headers that three replica ranks send to each other, and the first difference between the headers. All numbers in
// the header of rank 0 are 0. The result of Run() is 1 if FindReplicaDifference finds the expected rank and difference.
struct ReplicaCase {
  struct Header {
    int step, hyper_parameters, inputs, parameters;
    bool is_export = false;
    constexpr bool exports() const { return is_export; }
  };
  Header rank1, rank2;
  int64_t rank;               // expected
  RankDifference difference;  // expected
  double expected = 1;

  SHAMPOO_HD double Run() const {
    const ReplicaDifference found = FindReplicaDifference(3, [this](int64_t of) {
      return of == 0 ? Header{} : of == 1 ? rank1 : rank2;
    });
    return found.rank == rank && found.difference == difference ? 1 : 0;
  }
};

inline constexpr ReplicaCase kReplicaCases[] = {
    {{0, 0, 0, 0}, {0, 0, 0, 0}, 0, RankDifference::kNone},
    {{0, 0, 0, 0}, {1, 1, 1, 1}, 2, RankDifference::kStep},
    {{0, 1, 0, 0}, {1, 0, 0, 0}, 1, RankDifference::kScalars},
    {{0, 0, 1, 1}, {1, 0, 0, 0}, 2, RankDifference::kStep},
    {{0, 0, 1, 1}, {0, 1, 0, 0}, 2, RankDifference::kScalars},
    {{0, 0, 0, 1}, {0, 0, 1, 0}, 2, RankDifference::kInputs},
    {{0, 0, 0, 1}, {0, 0, 0, 1}, 1, RankDifference::kParameters},
    {{1, 1, 1, 1}, {0, 0, 1, 0, true}, 2, RankDifference::kInputs},
};

// The values that three shard ranks send about a group or about a parameter. For a group, kStep, kFirst and kDiffering
// ask for the members `step`, `first` and `differing` of ShardStep. For a parameter, kWith and kWithout ask for the
// members `with` and `without` of GradientDifference.
struct ShardCase {
  enum class Ask { kStep, kFirst, kDiffering, kWith, kWithout };
  Ask ask;
  int64_t of_rank[3];  // the step of the group, or GradientOnShard of the parameter
  double expected;

  SHAMPOO_HD double Run() const {
    const auto number_of = [this](int64_t rank) { return of_rank[rank]; };
    const auto gradient_of = [this](int64_t rank) { return static_cast<unsigned char>(of_rank[rank]); };
    const ShardStep step = FindShardStep(3, number_of);
    const GradientDifference gradients = FindGradientDifference(3, gradient_of);
    return static_cast<double>(ask == Ask::kStep        ? step.step
                               : ask == Ask::kFirst     ? step.first
                               : ask == Ask::kDiffering ? step.differing
                               : ask == Ask::kWith      ? gradients.with
                                                        : gradients.without);
  }
};

using AskShards = ShardCase::Ask;
inline constexpr ShardCase kShardCases[] = {
    {AskShards::kStep, {0, 0, 0}, 0},
    {AskShards::kFirst, {0, 0, 0}, -1},
    {AskShards::kStep, {0, 7, 7}, 7},
    {AskShards::kFirst, {0, 7, 7}, 1},
    {AskShards::kDiffering, {0, 7, 7}, -1},
    {AskShards::kDiffering, {7, 0, 8}, 2},
    {AskShards::kDiffering, {7, 6, 8}, 1},
    {AskShards::kWith, {kNoElements, kNoGradient, kNoElements}, -1},
    {AskShards::kWith, {kGradientAndCopy, kGradient, kNoGradient}, 1},
    {AskShards::kWith, {kGradient, kGradientAndCopy, kNoGradient}, 1},
    {AskShards::kWithout, {kGradientAndCopy, kGradient, kNoGradient}, 2},
    {AskShards::kWithout, {kGradient, kNoElements, kGradient}, -1},
};

}  // namespace shampoo
