// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/base/status.h"

namespace shampoo::ckpt {

// The exit status of the program. The numbers are those of diff(1). kProblemFound: damage or a difference was found.
enum ExitCode { kSuccess = 0, kProblemFound = 1, kFailed = 2 };

enum class Command { kHelp, kVersion, kInspect, kVerify, kDiff };

struct Arguments {
  Command command = Command::kHelp;
  std::vector<std::string> paths;
  bool blocks = false;
  bool json = false;
  bool norms = true;
  bool progress = false;  // reports progress even if stderr is not a terminal
};

// Parses the command line without the name of the program. The message of an error names what is expected.
Status ParseArguments(const std::vector<std::string>& words, Arguments* arguments);

extern const char kUsage[];

}  // namespace shampoo::ckpt
