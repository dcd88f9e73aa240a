// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/replay_program.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/golden/device.h"
#include "tests/golden/suites.h"

namespace shampoo::golden {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int32_t kMaxThreads = 1024;
constexpr int32_t kMaxRanks = 64;

struct CommandLine {
  ReplayOptions replay;
  std::filesystem::path out;
  std::vector<std::filesystem::path> cases;
};

int32_t ParseCount(const std::string& option, const std::string& text, int32_t least, int32_t most) {
  int32_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < least || count > most) {
    throw std::runtime_error(option + " " + text + ": expected " + std::to_string(least) + " to " +
                             std::to_string(most));
  }
  return count;
}

void ParseKey(const std::string& text, ReplayOptions* replay) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) throw std::runtime_error("--set " + text + ": expected KEY=VALUE");
  replay->keys.emplace_back(text.substr(0, equals), text.substr(equals + 1));
}

void SetOption(const std::string& option, const std::string& value, CommandLine* command) {
  ReplayOptions& replay = command->replay;
  if (option == "--threads") {
    replay.threads = ParseCount(option, value, 0, kMaxThreads);
  } else if (option == "--ranks") {
    replay.ranks = ParseCount(option, value, 1, kMaxRanks);
  } else if (option == "--shards") {
    replay.shards = ParseCount(option, value, 1, kMaxRanks);
  } else if (option == "--shard") {
    if (value != "flat" && value != "rect") throw std::runtime_error("--shard " + value + ": expected flat or rect");
    replay.rectangles = value == "rect";
    if (replay.shards == 1) replay.shards = 2;
  } else if (option == "--communicate" || option == "--communication-dtype" || option == "--shard-mode") {
    std::string key = option.substr(2);
    std::replace(key.begin(), key.end(), '-', '_');
    replay.keys.emplace_back(key, value);
  } else if (option == "--collectives") {
    if (value != "all" && value != "all_gather") {
      throw std::runtime_error("--collectives " + value + ": expected all or all_gather");
    }
    replay.has_all_to_all = value == "all";
  } else if (option == "--set") {
    ParseKey(value, &replay);
  } else if (option == "--device") {
    replay.device = &DeviceNamed(value.c_str());
  } else if (option == "--perturb") {
    replay.perturb = static_cast<uint64_t>(ParseCount(option, value, 1, std::numeric_limits<int32_t>::max()));
  } else if (option == "--save-every") {
    replay.save_every = value;
  } else if (option == "--resume-from" || option == "--resume-across") {
    replay.resume_from = value;
    replay.resume_across = option == "--resume-across";
  } else if (option == "--out") {
    command->out = value;
  } else {
    throw std::runtime_error("unknown option " + option);
  }
}

CommandLine ParseCommandLine(const std::vector<std::string>& arguments) {
  CommandLine command;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.starts_with("--")) {
      if (++i == arguments.size()) throw std::runtime_error(argument + " is unknown, or needs a value");
      SetOption(argument, arguments[i], &command);
    } else {
      command.cases.emplace_back(argument);
    }
  }
  if (command.out.empty()) throw std::runtime_error("--out DIR is missing");
  if (command.cases.empty()) throw std::runtime_error("no case: expected at least one file");
  return command;
}

using ReplayFunction = TensorFile (*)(const Case&, const ReplayOptions&);

ReplayFunction FunctionOfSuite(const std::string& suite) {
  if (suite.starts_with("trajectory")) {
    return ReplayTrajectory;
  }
  if (suite == "matrix_root") return ReplayMatrixRoot;
  if (suite == "matrix_root_extra") return ReplayMatrixRootExtra;
  if (suite == "matrix_root_newton_schulz") return ReplayOrthogonalize;
  if (suite == "training") return ReplayTraining;
  throw std::runtime_error("suite " + suite + " is not supported by this tool");
}

TensorFile Replay(const Case& recorded, const ReplayOptions& replay) {
  const auto suite = recorded.settings.at("suite").get<std::string>();
  const ReplayFunction function = FunctionOfSuite(suite);
  const auto source = recorded.settings.at("source").get<std::string>();
  // `source` names the program that recorded the case. If the settings of the case are keys of the library, every
  // source is supported.
  const bool has_keys = source == "tests/golden/rules" || suite == "trajectory_muon" || suite == "trajectory_methods" ||
                        suite == "matrix_root_newton_schulz";
  if (!has_keys &&
      source != (suite.ends_with("_extra") ? "distributed_shampoo 2026-08" : "distributed_shampoo 2024-07")) {
    throw std::runtime_error("source " + source + " is not supported by this tool");
  }
  const bool is_plain = replay.save_every.empty() && replay.resume_from.empty() && replay.perturb == 0;
  if (function != ReplayTrajectory && !is_plain) {
    throw std::runtime_error("--perturb, --save-every, --resume-from and --resume-across are for trajectories only");
  }
  return function(recorded, replay);
}

void RunCase(const std::filesystem::path& path, const CommandLine& command) {
  const std::filesystem::path target = command.out / path.filename();
  if (std::filesystem::exists(target) && std::filesystem::equivalent(path, target)) {
    throw std::runtime_error(
        "--out is the folder of the case, and the result would overwrite the case: expected another folder");
  }
  std::filesystem::remove(target);  // the result of an earlier run must not be used
  Case recorded{path, {}, ReadSafetensors(path)};
  const auto text = recorded.data.metadata.find("case");
  if (text == recorded.data.metadata.end()) throw std::runtime_error("the metadata has no entry \"case\"");
  recorded.settings = nlohmann::json::parse(text->second);
  WriteSafetensors(target, Replay(recorded, command.replay));
}

// Makes this process a rank of the communicator `ops`. Each rank above 0 writes to its own folder.
void BecomeRank(const shampoo_comm_ops& ops, CommandLine* command) {
  command->replay.process = &ops;
  if (ops.rank > 0) command->out += ".rank" + std::to_string(ops.rank);
}

}  // namespace

int RunReplay(int argc, char** argv, const shampoo_comm_ops* process) {
  CommandLine command;
  try {
    command = ParseCommandLine({argv + 1, argv + argc});
    if (process != nullptr) BecomeRank(*process, &command);
    std::filesystem::create_directories(command.out);
  } catch (const std::exception& error) {
    std::cerr << "shampoo_replay: " << error.what() << "\n"
              << "usage: shampoo_replay [--threads N] [--ranks N] [--shard flat|rect] [--shards M]\n"
              << "       [--shard-mode local|gather] [--collectives all|all_gather] [--communicate WHAT]\n"
                 "       [--communication-dtype DTYPE] [--set KEY=VALUE]\n       [--device NAME] [--perturb SEED] "
                 "[--save-every DIR]\n       [--resume-from DIR] [--resume-across DIR] --out DIR CASE.safetensors...\n";
    return kUsage;
  }
  size_t failed = 0;
  for (const std::filesystem::path& path : command.cases) {
    try {
      RunCase(path, command);
    } catch (const std::exception& error) {
      ++failed;
      std::cerr << "FAIL " << path.filename().string() << ": " << error.what() << "\n";
    }
  }
  std::cout << command.cases.size() - failed << " replayed, " << failed << " failed\n";
  return failed == 0 ? 0 : kFailed;
}

}  // namespace shampoo::golden
