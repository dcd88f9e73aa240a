// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/kernel_common.h"
#include "core/comm/segment_header.h"

// Functions with which ranks agree on a step. exchange.cu uses them for replicas, and agree.cu for shard ranks.
namespace shampoo::cuda {

// Returns the hash after mixing in a value.
SHAMPOO_DEVICE inline uint64_t Mixed(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdu;
}

// Returns the hash after mixing in the values of the hyper-parameters that can be bound (core/rules/bound_scalars.h).
SHAMPOO_DEVICE inline uint64_t MixedWithScalars(uint64_t hash, const GroupSettings& settings) {
  for (int key = 0; key < kBindableKeys; ++key) hash = Mixed(hash, BitsAs<uint64_t>(settings.*BindableField(key)));
  return hash;
}

// Returns the Code with which this rank rejects the step; 0 if it does not reject the step.
SHAMPOO_DEVICE inline int64_t CodeOf(const StepState& state) {
  if (state.rejected == 0) return 0;
  if (state.failure != Code::kOk) return static_cast<int64_t>(state.failure);
  switch (state.report.rejection) {
    case Rejection::kCounter:
    case Rejection::kSchedule:
      return static_cast<int64_t>(Code::kState);
    case Rejection::kBoundScalar:
      return static_cast<int64_t>(Code::kInvalid);
    default:
      return static_cast<int64_t>(Code::kNumeric);
  }
}

// Returns the flags of this rank's header. kExports is set if this rank exports averages and knows of no rank that
// makes a step (StepState::exports is 1). A header without kExports therefore means that some rank makes a step.
SHAMPOO_DEVICE inline uint32_t FlagsOf(const StepState& state) {
  const bool skips = state.rejected == 0 && state.go == 0;
  return (skips ? kSkipsStep : 0) | (state.exports == 1 ? kExports : 0);
}

// If this rank exports, records in StepState::exports whether another rank makes a step. Call this function before you
// use codes and flags of headers.
//   header_of(rank)  returns the RoundHeader of a rank
template <typename HeaderOf>
SHAMPOO_DEVICE inline void RecordSteppingRanks(StepState* state, int64_t world, const HeaderOf& header_of) {
  for (int64_t rank = 0; state->exports == 1 && rank < world; ++rank) {
    if (!header_of(rank).exports()) state->exports = 2;
  }
}

// Rejects the step because `rank` has rejected it or makes a different step. The report names `rank` and the
// difference. among_shards: true if `rank` is a shard rank, false if it is a replica rank.
SHAMPOO_DEVICE inline void RejectWithRank(StepState* state, int64_t rank, RankDifference difference,
                                          bool among_shards) {
  StepReport& report = state->report;
  // If this rank itself has rejected the step, keep its own reason, because that reason has more details.
  if (state->counted == 0) report.rejection = Rejection::kOtherRank;
  CountRejection(state);
  state->counted = 2;
  report.rank = static_cast<int32_t>(rank);
  report.difference = difference;
  report.among_shards = among_shards ? 1 : 0;
}

// Skips the step because another rank skips it.
SHAMPOO_DEVICE inline void SkipStep(StepState* state) {
  if (state->go == 0) return;
  state->go = 0;
  ++state->report.skipped_steps;
}

// The segments that shard ranks exchange to agree on a step. See ShardHeader for the contents of a segment.
class ShardSegments {
 public:
  SHAMPOO_DEVICE explicit ShardSegments(const Tables& tables) : tables_(tables) {}

  SHAMPOO_DEVICE ShardHeader& HeaderOf(int64_t rank) const { return *reinterpret_cast<ShardHeader*>(At(rank)); }
  // Returns, by group, the number of the step that a rank is about to make.
  SHAMPOO_DEVICE int64_t* StepsOf(int64_t rank) const {
    return reinterpret_cast<int64_t*>(At(rank) + sizeof(ShardHeader));
  }
  // Returns the GradientOnShard values of a rank, by parameter.
  SHAMPOO_DEVICE unsigned char* GradientsOf(int64_t rank) const {
    return reinterpret_cast<unsigned char*>(StepsOf(rank) + tables_.group_count);
  }
  // Returns the largest GradientOnShard value that any rank reports for a parameter.
  SHAMPOO_DEVICE unsigned char AgreedGradientOf(int64_t param) const {
    unsigned char largest = 0;
    for (int64_t rank = 0; rank < tables_.shard_world; ++rank) {
      const unsigned char gradient = GradientsOf(rank)[param];
      largest = gradient > largest ? gradient : largest;
    }
    return largest;
  }
  // Returns the first rank for which holds(header) is true. If there is no such rank, returns the number of ranks.
  template <typename Holds>
  SHAMPOO_DEVICE int64_t First(const Cta& cta, const Holds& holds) const {
    return cta.First(tables_.shard_world, [&](int64_t rank) { return holds(HeaderOf(rank)); });
  }

 private:
  SHAMPOO_DEVICE char* At(int64_t rank) const { return tables_.shard_segments + rank * tables_.shard_segment_bytes; }

  const Tables& tables_;
};

}  // namespace shampoo::cuda
