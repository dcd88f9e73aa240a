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

// What one rank has to tell and to write: of what several ranks have, the first does so. They may have the same as they
// are copies that do not share the work, or as each shard rank has a parameter whole.
struct OwnPart {
  std::vector<std::string> descriptions;  // for Descriptions
  std::vector<BlockToSave> blocks;
  int64_t keep = 1;  // checkpoints, as the key of any rank's optimizer says

  int64_t bytes() const;
};

// Collective.
Status FindOwnPart(const CheckpointCall& call, const Ranks& ranks, OwnPart* part);

}  // namespace shampoo
