// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/checkpoint/checkpoint_call.h"
#include "core/checkpoint/ranks.h"
#include "core/checkpoint/states_writer.h"

namespace shampoo {

// The share of a checkpoint that one rank writes. If several ranks have the same blocks or descriptions (see
// description.h), the lowest of these ranks writes them. Ranks have the same blocks in two cases:
// - The ranks are replicas without a replica_comm.
// - With shard_mode=local, several shard ranks hold the whole parameter to which the blocks belong.
struct LocalShare {
  std::vector<std::string> descriptions;  // the texts for Descriptions::Add()
  std::vector<BlockToSave> blocks;
  int64_t keep = 1;  // number of checkpoints to keep: the largest checkpoint_keep of all optimizers of all ranks

  int64_t bytes() const;  // of the states in `blocks`
};

// Determines the share of this rank. Collective.
Status FindLocalShare(const CheckpointCall& call, const Ranks& ranks, LocalShare* share);

}  // namespace shampoo
