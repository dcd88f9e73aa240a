// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/plan/assignment.h"

namespace shampoo {

// What each rank tells the others at the start of its segment of an exchange. Ranks run on one kind of machine, so it
// travels as it lies in memory.
struct SegmentHeader {
  int64_t code;         // Code of a check that failed on this rank: it sends no updates
  int64_t echo;         // 1: the failure is that of another rank, which knows more of it
  int64_t step;         // the largest step number of any group
  uint64_t inputs;      // hash of what must be equal: gradients present, blocks left out, steps of groups, step skipped
  uint64_t scalars;     // hash of all hyper-parameters that may change
  uint64_t parameters;  // hash of the parameters, in steps that compare them
  int64_t overdue_root;  // the factor matrix whose root failed too often, for the next step to raise; -1: none
  int64_t place;         // which optimizer of the communicator, which exchange of its step
};
static_assert(sizeof(SegmentHeader) == kSegmentHeaderBytes);

}  // namespace shampoo
