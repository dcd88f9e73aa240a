// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/base/status.h"

namespace shampoo::ckpt {

// The exit status of the program. The numbers are those of diff(1).
//   kProblemFound  the program found damage or a difference
//   kFailed        the command failed, or the command line was wrong
enum ExitCode { kSuccess = 0, kProblemFound = 1, kFailed = 2 };

enum class Command { kHelp, kVersion, kInspect, kVerify, kDiff };

// The command line. kUsage describes the options.
struct Arguments {
  Command command = Command::kHelp;
  std::vector<std::string> paths;
  bool blocks = false;    // --blocks
  bool json = false;      // --json
  bool norms = true;      // false with --no-norms
  bool progress = false;  // --progress: report progress even if stderr is not a terminal
};

// Parses the command line. words: its words after the name of the program.
Status ParseArguments(const std::vector<std::string>& words, Arguments* arguments);

extern const char kUsage[];  // the output of --help

}  // namespace shampoo::ckpt
