// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/status.h"
#include "core/checkpoint/checkpoint_call.h"

namespace shampoo {

// Loads a checkpoint. Collective. A failed load leaves the optimizers unchanged, with one exception: states from
// earlier steps or loads are not backed up if they are large. If a load fails after it has begun to write states,
// optimizers with such states cannot step until a load succeeds.
Status LoadCheckpoint(const CheckpointCall& call);

}  // namespace shampoo
