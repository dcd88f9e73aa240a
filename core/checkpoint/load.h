// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/status.h"
#include "core/checkpoint/checkpoint_call.h"

namespace shampoo {

// Collective. A load that fails leaves the optimizers as they were; where that cannot be, as files could not be read
// for a second time and there was no memory to keep the old state, they refuse to step.
Status LoadCheckpoint(const CheckpointCall& call);

}  // namespace shampoo
