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
  Communicator* world = nullptr;                // of all ranks that make the call; nullptr if there is only one
  void* stream = nullptr;                       // CUDA stream of the optimizers that are on a GPU
  std::string directory;
  std::string library;   // version of the library
  Status caller_status;  // success, or an error in this rank's arguments, which CheckCall() returns
};

// Staging for exchanges over CheckpointCall::world. If `world` takes device memory, the data of each exchange are
// copied from host memory to device memory and back, as long as this object exists. If `world` takes host memory,
// nothing is copied.
class WorldStaging {
 public:
  // Fails if this rank cannot take part in exchanges: if an earlier exchange failed, or if `world` takes device memory
  // and no optimizer of this rank is on a GPU.
  Status Create(const CheckpointCall& call);

 private:
  std::unique_ptr<Staging> staging_;
  std::optional<StagingScope> scope_;
};

// Checks this rank's arguments and waits for pending steps, so that the states can be read. If CheckCall() fails,
// its caller must report the error to the other ranks.
Status CheckCall(const CheckpointCall& call);

}  // namespace shampoo
