// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/status.h"
#include "core/checkpoint/checkpoint_call.h"
#include "core/checkpoint/states_writer.h"

namespace shampoo {

// Collective. A save that fails leaves earlier checkpoints whole, and none of its own files as far as it can.
Status SaveCheckpoint(const CheckpointCall& call, const StatesWriter::Limits& limits);

}  // namespace shampoo
