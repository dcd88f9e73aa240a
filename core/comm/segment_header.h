// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/comm/round_header.h"
#include "core/plan/assignment.h"

namespace shampoo {

// The header of a replica's segment in the exchange of updates.
struct SegmentHeader {
  RoundHeader round;
  int64_t step;               // the largest counter of a group: on a device, of groups that step, after this step
  uint64_t inputs;            // hash of ReplicaInputs
  uint64_t hyper_parameters;  // hash of those that can be changed
  uint64_t parameters;        // hash of the parameters, in steps that compare them
  int64_t failing_root;       // the factor matrix whose root failed too often, which the next step reports; -1: none
  int64_t unused;
};
static_assert(sizeof(SegmentHeader) == kSegmentHeaderBytes);

}  // namespace shampoo
