// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "core/base/status.h"
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

// What no agreement with other ranks could be reached over.
Status CheckWorld(const CheckpointCall& call);
// What a rank must have done right; the others hear of it.
Status CheckCall(const CheckpointCall& call);

}  // namespace shampoo
