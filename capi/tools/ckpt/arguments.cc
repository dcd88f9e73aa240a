// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "capi/tools/ckpt/arguments.h"

#include <algorithm>
#include <span>

namespace shampoo::ckpt {
namespace {

struct CommandSpec {
  const char* name;
  Command command;
  size_t paths;
  const char* operands;  // the names of the paths in the error message, such as "A B"
};
constexpr CommandSpec kCommands[] = {{"inspect", Command::kInspect, 1, "PATH"},
                                     {"verify", Command::kVerify, 1, "PATH"},
                                     {"diff", Command::kDiff, 2, "A B"}};

struct OptionSpec {
  const char* name;
  bool Arguments::*flag;
  bool value;
  std::vector<Command> commands;  // the commands that have this option
};
const std::vector<OptionSpec>& Options() {
  static const auto* const options = new std::vector<OptionSpec>{
      {"--blocks", &Arguments::blocks, true, {Command::kInspect}},
      {"--json", &Arguments::json, true, {Command::kInspect}},
      {"--no-norms", &Arguments::norms, false, {Command::kInspect}},
      {"--progress", &Arguments::progress, true, {Command::kInspect, Command::kVerify, Command::kDiff}}};
  return *options;
}

constexpr const char* kSeeHelp = "; see shampoo-ckpt --help";

Status SetOption(const std::string& word, const CommandSpec& command, Arguments* arguments) {
  std::string known;
  for (const OptionSpec& option : Options()) {
    if (std::find(option.commands.begin(), option.commands.end(), command.command) == option.commands.end()) continue;
    if (word == option.name) {
      arguments->*option.flag = option.value;
      return {};
    }
    known += Cat(known.empty() ? "" : ", ", option.name);
  }
  return Invalid(command.name, " has no option ", word, ": expected one of ", known, kSeeHelp);
}

}  // namespace

const char kUsage[] =
    R"(shampoo-ckpt inspects checkpoints that shampoo_save has written, and never changes them.

  shampoo-ckpt inspect [--blocks] [--no-norms] [--json] PATH
      Prints the contents of a checkpoint: the steps and hyper-parameters of its groups,
      and a table of its parameters. The table has norms and traces of the states of a
      parameter, computed over all blocks of the parameter.
        --blocks     also print each block: its place in the parameter, its file and
                     its entries (an entry is one state of the block)
        --no-norms   read only the index, not the states
        --json       print JSON

  shampoo-ckpt verify PATH
      Reads the whole checkpoint. Reports damaged and missing states, and parameters whose
      blocks do not contain each element exactly once.

  shampoo-ckpt diff A B
      Prints the differences between two checkpoints: parameters, steps, hyper-parameters,
      and the largest differences of each state. If A and B divide a parameter into
      different blocks, states with one element for each element of the parameter are
      still compared as a whole, with two exceptions: moments in eigenbases, and the state
      direction_moment. These exceptions and all other states are compared only for blocks
      that both checkpoints have. NaN equals NaN, and 0 equals -0.

  shampoo-ckpt --help | --version

PATH, A and B are each the index file of a checkpoint (checkpoint-000007.json), or a
directory into which checkpoints were saved. In a directory, the last complete checkpoint
is used.
--progress reports progress on stderr even if stderr is not a terminal.

Exit status: 0: neither damage nor a difference was found. 1: damage or a difference was
found. 2: the command failed, or the command line was wrong.
)";

Status ParseArguments(const std::vector<std::string>& words, Arguments* arguments) {
  if (words.empty()) return Invalid("no command: expected inspect, verify or diff", kSeeHelp);
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") return {};
  if (words[0] == "--version") {
    arguments->command = Command::kVersion;
    return {};
  }
  const auto* const command = std::find_if(std::begin(kCommands), std::end(kCommands),
                                           [&](const auto& known) { return words[0] == known.name; });
  if (command == std::end(kCommands)) {
    return Invalid("unknown command ", words[0], ": expected inspect, verify or diff", kSeeHelp);
  }
  bool options = true;
  for (const std::string& word : std::span(words).subspan(1)) {
    if (options && word == "--") {
      options = false;
    } else if (options && (word == "--help" || word == "-h")) {
      return {};
    } else if (options && word.starts_with('-') && word != "-") {
      SHAMPOO_RETURN_IF_ERROR(SetOption(word, *command, arguments));
    } else {
      arguments->paths.push_back(word);
    }
  }
  arguments->command = command->command;
  if (arguments->paths.size() == command->paths) return {};
  return Invalid(command->name, " takes ", command->paths, command->paths == 1 ? " path" : " paths", ", got ",
                 arguments->paths.size(), ": expected shampoo-ckpt ", command->name, " ", command->operands, kSeeHelp);
}

}  // namespace shampoo::ckpt
