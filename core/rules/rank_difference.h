// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/host_device.h"

// How ranks compare the headers that they have sent to each other (see segment_header.h), before they use other data
// that they have exchanged. If ranks differ in several ways, all ranks report the same difference. The CPU and a device
// report the same difference for the same headers.
namespace shampoo {

// The difference that a rank finds in the headers of the other replica ranks or of the other shard ranks. kFailed: a
// rank reports a failure. kScalars: hyper-parameters differ. kPlace: RoundHeader::place differs.
enum class RankDifference : int32_t { kNone, kFailed, kStep, kScalars, kInputs, kParameters, kPlace };

// The first difference between replica ranks. rank: the rank that differs from rank 0; 0 if there is no difference.
struct ReplicaDifference {
  int64_t rank = 0;
  RankDifference difference = RankDifference::kNone;
};

// Compares steps, hyper-parameters, inputs and parameters of replicas. Call only if no replica has failed. Different
// steps or hyper-parameters may be the reason why inputs differ, so steps and hyper-parameters are compared on all
// ranks before the inputs. Before all other comparisons, the function checks that either all ranks export averages or
// none does, because the other values in the headers of an export and of a step cannot be compared.
//   header_of(rank)  returns the SegmentHeader of a rank
SHAMPOO_CALLS_BACK template <typename HeaderOf>
SHAMPOO_HD ReplicaDifference FindReplicaDifference(int64_t world, const HeaderOf& header_of) {
  const auto& first = header_of(0);
  for (int64_t rank = 1; rank < world; ++rank) {
    if (header_of(rank).exports() != first.exports()) return {rank, RankDifference::kInputs};
  }
  for (int64_t rank = 1; rank < world; ++rank) {
    if (header_of(rank).step != first.step) return {rank, RankDifference::kStep};
    if (header_of(rank).hyper_parameters != first.hyper_parameters) return {rank, RankDifference::kScalars};
  }
  for (int64_t rank = 1; rank < world; ++rank) {
    if (header_of(rank).inputs != first.inputs) return {rank, RankDifference::kInputs};
  }
  for (int64_t rank = 1; rank < world; ++rank) {
    if (header_of(rank).parameters != first.parameters) return {rank, RankDifference::kParameters};
  }
  return {};
}

// Returns whether a step compares the parameters of replicas. steps: the number of steps made before this step.
constexpr bool ComparesParameters(int64_t verify_replicas, int64_t steps) {
  return verify_replicas > 0 && steps % verify_replicas == 0;
}

// What one shard rank has of a parameter: no elements; elements without a gradient; elements with a gradient; or
// elements with a gradient and a buffer for a copy (shampoo_buffers.copy).
enum GradientOnShard : unsigned char { kNoElements = 0, kNoGradient = 1, kGradient = 2, kGradientAndCopy = 3 };

// The last shard rank that has a gradient of a parameter, and the last one that has elements of the parameter but no
// gradient; -1: there is no such rank.
struct GradientDifference {
  int64_t with = -1;
  int64_t without = -1;

  constexpr bool found() const { return with >= 0 && without >= 0; }
};

// Finds shard ranks that differ in whether they have a gradient of a parameter.
//   gradient_of(rank)  returns the GradientOnShard of a rank
SHAMPOO_CALLS_BACK template <typename GradientOf>
SHAMPOO_HD GradientDifference FindGradientDifference(int64_t world, const GradientOf& gradient_of) {
  GradientDifference ranks;
  for (int64_t rank = 0; rank < world; ++rank) {
    const unsigned char gradient = gradient_of(rank);
    if (gradient >= kGradient) ranks.with = rank;
    if (gradient == kNoGradient) ranks.without = rank;
  }
  return ranks;
}

// The step number of one group in the step that the shard ranks are about to make.
struct ShardStep {
  int64_t step = 0;        // the step number on rank `first`; 0: no rank makes a step of the group
  int64_t first = -1;      // the lowest rank that makes a step of the group; -1: none
  int64_t differing = -1;  // the lowest rank whose step number is neither 0 nor `step`; -1: none
};

// Compares the step numbers of one group in the step that the shard ranks are about to make.
//   step_of(rank)  returns the step number of the group on a rank, or 0 if the rank makes no step of the group
SHAMPOO_CALLS_BACK template <typename StepOf>
SHAMPOO_HD ShardStep FindShardStep(int64_t world, const StepOf& step_of) {
  ShardStep found;
  for (int64_t rank = 0; rank < world; ++rank) {
    const int64_t step = step_of(rank);
    if (step == 0) continue;
    if (found.first < 0) {
      found.first = rank;
      found.step = step;
    } else if (step != found.step && found.differing < 0) {
      found.differing = rank;
    }
  }
  return found;
}

}  // namespace shampoo
