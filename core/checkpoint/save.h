// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "core/base/status.h"
#include "core/checkpoint/states_writer.h"
#include "core/comm/communicator.h"
#include "core/optimizer/optimizer.h"

namespace shampoo {

// The arguments of shampoo_save and shampoo_load on one rank.
struct CheckpointCall {
  std::span<Optimizer* const> optimizers;
  Communicator* world = nullptr;  // nullptr: one rank
  std::string directory;
  std::string library;  // its version
  Status given;         // what the caller of this rank has done wrong already, of which the others are to know
};

// Collective. A save that fails leaves earlier checkpoints whole, and none of its own files as far as it can.
Status SaveCheckpoint(const CheckpointCall& call, const StatesWriter::Limits& limits);

// What a rank must have done right before it saves or loads.
Status CheckOptimizers(const CheckpointCall& call);

}  // namespace shampoo
