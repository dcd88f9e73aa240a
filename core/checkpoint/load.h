// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/status.h"
#include "core/checkpoint/checkpoint_call.h"

namespace shampoo {

// Loads a checkpoint. Collective. A failed load leaves the optimizers unchanged, with one exception. A large state is
// not backed up. If a file passes the checks and then cannot be read again, the optimizers cannot step until a load
// succeeds.
Status LoadCheckpoint(const CheckpointCall& call);

}  // namespace shampoo
