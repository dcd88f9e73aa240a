// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/base/status.h"

namespace shampoo::ckpt {

// What ends the program, as diff(1) has it.
enum ExitCode { kFine = 0, kFound = 1, kTrouble = 2 };

enum class Command { kHelp, kVersion, kInspect, kVerify, kDiff };

struct Arguments {
  Command command = Command::kHelp;
  std::vector<std::string> paths;
  bool blocks = false;
  bool json = false;
  bool norms = true;
  bool progress = false;  // also where stderr is no terminal
};

// Fails with a text that says what to do.
Status ParseArguments(const std::vector<std::string>& words, Arguments* arguments);

extern const char kUsage[];

}  // namespace shampoo::ckpt
