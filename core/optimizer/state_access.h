// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/base/status.h"
#include "core/state/entries.h"

namespace shampoo {

class Optimizer;

// An entry of the state of an optimizer in memory of the host: where it lies, or a copy where that is memory of a
// device. One at a time: what was given is valid until the next call.
class StateAccess {
 public:
  Status Read(const Optimizer& optimizer, const StateEntry& entry, const char** memory);
  // To be changed, in part or as a whole; Finish brings it back.
  Status Change(Optimizer* optimizer, const StateEntry& entry, char** memory);
  Status Finish();

 private:
  std::vector<char> copy_;
  // Of what is being changed in a copy.
  Optimizer* optimizer_ = nullptr;
  const StateEntry* entry_ = nullptr;
};

}  // namespace shampoo
