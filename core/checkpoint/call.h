// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
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
  void* stream = nullptr;         // of optimizers on a device
  std::string directory;
  std::string library;  // its version
  Status given;         // what the caller of this rank has done wrong already, of which the others are to know
};

// What the ranks tell each other goes by way of a device where world takes no other memory.
class WorldStaging {
 public:
  explicit WorldStaging(const CheckpointCall& call);

 private:
  std::unique_ptr<Staging> staging_;
  std::optional<StagingScope> scope_;
};

// What no agreement with other ranks could be reached over.
Status CheckWorld(const CheckpointCall& call);
// What a rank must have done right; the others hear of it. The states can be looked at then.
Status CheckCall(const CheckpointCall& call);

}  // namespace shampoo
