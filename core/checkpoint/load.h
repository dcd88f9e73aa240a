// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/status.h"
#include "core/checkpoint/checkpoint_call.h"

namespace shampoo {

// Loads a checkpoint. Collective. A failed load leaves the optimizers unchanged, with one exception. Before a load
// writes, it copies the states of all optimizers that are not newly created, but only if these states are small in
// total. If it made no copies and fails after it has begun to write, these optimizers cannot step until another load
// succeeds.
Status LoadCheckpoint(const CheckpointCall& call);

}  // namespace shampoo
