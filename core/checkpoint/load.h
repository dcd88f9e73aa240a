// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/status.h"
#include "core/checkpoint/checkpoint_call.h"

namespace shampoo {

// Loads a checkpoint. Collective. A failed load leaves the optimizers unchanged, with one exception: states from
// earlier steps or loads are not backed up if they are large. If a file passes the checks, but reading it again fails,
// optimizers with such states cannot step until a load succeeds.
Status LoadCheckpoint(const CheckpointCall& call);

}  // namespace shampoo
