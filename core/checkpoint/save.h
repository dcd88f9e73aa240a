// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/status.h"
#include "core/checkpoint/checkpoint_call.h"
#include "core/checkpoint/states_writer.h"

namespace shampoo {

// Saves a checkpoint. Collective. A failed save leaves earlier complete checkpoints unchanged. It removes its own files
// if it can, except after a failed collective, because rank 0 may have completed the new checkpoint.
Status SaveCheckpoint(const CheckpointCall& call, const StatesWriter::Limits& limits);

}  // namespace shampoo
