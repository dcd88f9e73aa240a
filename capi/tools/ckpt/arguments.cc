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
  const char* takes;  // "PATH"
};
constexpr CommandSpec kCommands[] = {{"inspect", Command::kInspect, 1, "PATH"},
                                     {"verify", Command::kVerify, 1, "PATH"},
                                     {"diff", Command::kDiff, 2, "A B"}};

struct OptionSpec {
  const char* name;
  bool Arguments::*flag;
  bool value;
  std::vector<Command> of;
};
const std::vector<OptionSpec>& Options() {
  static const auto* const options = new std::vector<OptionSpec>{
      {"--blocks", &Arguments::blocks, true, {Command::kInspect}},
      {"--json", &Arguments::json, true, {Command::kInspect}},
      {"--no-norms", &Arguments::norms, false, {Command::kInspect}},
      {"--progress", &Arguments::progress, true, {Command::kInspect, Command::kVerify, Command::kDiff}}};
  return *options;
}

constexpr const char* kSeeHelp = "; shampoo-ckpt --help tells more";

Status SetOption(const std::string& word, const CommandSpec& command, Arguments* arguments) {
  std::string known;
  for (const OptionSpec& option : Options()) {
    if (std::find(option.of.begin(), option.of.end(), command.command) == option.of.end()) continue;
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
    R"(shampoo-ckpt looks into checkpoints that shampoo_save has written. It changes nothing.

  shampoo-ckpt inspect [--blocks] [--no-norms] [--json] PATH
      What a checkpoint has: steps and hyper-parameters of its groups, and a table of
      its parameters with norms of their states, over all blocks.
        --blocks     also each block: its place in the parameter, its file, its entries
        --no-norms   reads the index alone, and no file of states
        --json       for programs

  shampoo-ckpt verify PATH
      Reads everything, and tells what is damaged or missing, and whether the blocks of
      each parameter have each of its elements once.

  shampoo-ckpt diff A B
      What differs between two checkpoints: parameters, steps, hyper-parameters, and of
      each state the largest differences, however its blocks were cut. Factor matrices
      are compared where both have the same block. A number is the same as itself, and
      so is NaN; 0 is the same as -0.

  shampoo-ckpt --help | --version

PATH, A, B: a directory that checkpoints were saved into, of which the last one is
taken, or the index of one (checkpoint-000007.json).
--progress tells on stderr how far it is, also where that is no terminal.

Exit status: 0 all is well, or the same; 1 damage was found, or a difference; 2 it
could not be told, or the command line was wrong.
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
  return Invalid(command->name, " takes ", command->paths, command->paths == 1 ? " path" : " paths", " and was given ",
                 arguments->paths.size(), ": shampoo-ckpt ", command->name, " ", command->takes, kSeeHelp);
}

}  // namespace shampoo::ckpt
