// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/state/optimizer_state.h"

namespace shampoo {

// The arguments of shampoo_save and shampoo_load on one rank.
struct CheckpointCall {
  std::span<OptimizerState* const> optimizers;  // the states of the optimizers, in the caller's order
  Communicator* world = nullptr;                // nullptr: one rank
  void* stream = nullptr;                       // of optimizers on a device
  std::string directory;
  std::string library;   // its version
  Status caller_status;  // an error in the arguments of this rank's caller, which the other ranks must know
};

// While it lives, exchanges over `world` go through memory of a device if `world` takes no other.
class WorldStaging {
 public:
  // Fails if no agreement with the other ranks is possible.
  Status Create(const CheckpointCall& call);

 private:
  std::unique_ptr<Staging> staging_;
  std::optional<StagingScope> scope_;
};

// Checks this rank's arguments; the caller reports a failure to the other ranks. Afterwards the states can be read.
Status CheckCall(const CheckpointCall& call);

}  // namespace shampoo
