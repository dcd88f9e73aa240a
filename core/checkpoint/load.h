// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/status.h"
#include "core/checkpoint/checkpoint_call.h"

namespace shampoo {

// Loads a checkpoint. Collective. A failed load leaves the optimizers unchanged, with one exception. Before the load
// writes, it copies the states that earlier steps or loads have changed, but only if these states are small. If they
// were not copied and the load fails after it has begun to write, their optimizers cannot step until a load succeeds.
Status LoadCheckpoint(const CheckpointCall& call);

}  // namespace shampoo
