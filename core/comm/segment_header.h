// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/round_up.h"
#include "core/comm/round_header.h"
#include "core/plan/assignment.h"
#include "core/rules/rank_difference.h"

namespace shampoo {

// The header of a replica's segment in the exchange of updates. On the CPU, the fields from `step` to `parameters` are
// 0 in all buckets after the first, and if the rank has failed.
struct SegmentHeader {
  RoundHeader round;
  // In a step on a device: the largest step counter of the groups that make the step, after this step. In a step on the
  // CPU and in an export: the largest step counter of all groups, before the call.
  int64_t step;
  uint64_t inputs;            // hash of ReplicaInputs (see replica_inputs.h)
  uint64_t hyper_parameters;  // hash of the hyper-parameters; on the CPU: HyperParameters::Hash()
  uint64_t parameters;        // hash of the parameters; 0 if the step does not compare them (key verify_replicas)
  int64_t failing_root;       // index of a factor matrix whose root failed too often, or -1 (RootLedger::failing_root)
  int64_t unused;

  constexpr bool exports() const { return round.exports(); }
};
static_assert(sizeof(SegmentHeader) == kSegmentHeaderBytes);

// The header of the segment that a shard rank sends before a step (see shard_agreement.h). The rest of the segment has
//   - an int64 for each group: the number of the step that the rank is about to make; 0: the group makes no step
//   - a byte for each parameter: a GradientOnShard (see core/rules/rank_difference.h)
struct ShardHeader {
  RoundHeader round;
  uint64_t hyper_parameters;  // hash of the hyper-parameters; on the CPU: HyperParameters::Hash()
};

// Returns the size in bytes of a ShardHeader and the rest of its segment.
constexpr int64_t ShardSegmentBytes(size_t groups, size_t params) {
  return RoundUp(static_cast<int64_t>(sizeof(ShardHeader) + groups * sizeof(int64_t) + params), kSegmentAlignment);
}

}  // namespace shampoo
