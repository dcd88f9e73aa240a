// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/status.h"
#include "core/checkpoint/checkpoint_call.h"
#include "core/checkpoint/states_writer.h"

namespace shampoo {

// Saves a checkpoint. Collective. A failed save leaves earlier checkpoints unchanged, and removes its own files if it
// can.
Status SaveCheckpoint(const CheckpointCall& call, const StatesWriter::Limits& limits);

}  // namespace shampoo
