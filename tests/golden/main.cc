// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Replays recorded cases through the public C API:
//   shampoo_replay [options] --out DIR CASE.safetensors...
// Options:
//   --threads N                     threads of each rank
//   --ranks N                       N ranks with the same parameters, as threads
//   --shard flat|rect, --shards M   M shards of the parameters (default 2), each on as many ranks as --ranks gives
//   --collectives all|all_gather    all_gather: communicators have no all-to-all (default all)
//   --shard-mode local|gather, --communicate updates|params, --communication-dtype DTYPE, --set KEY=VALUE
//                                   keys of the library
//   --device NAME                   device of the optimizer, if the program supports devices
// Options for trajectories:
//   --perturb SEED                  before each step, changes the gradients and the factor matrices by as much as
//                                   rounding errors do (perturb.h); SEED is 1 or more
//   --save-every DIR                saves a checkpoint after each step except the last
//   --resume-from DIR               resumes from each checkpoint of another process; fails if a result is not
//                                   bit-identical to that of the other process
//   --resume-across DIR             resumes from each checkpoint of another device; writes the results of all runs
//                                   along a new first dim
// With MPI (shampoo_replay_mpi) every process of mpirun is a rank, and ranks above 0 write to DIR.rank<R>. The results
// of each case are the tensors of DIR/<the same file name>, which compare.py reads. A case that fails is reported and
// has no file; the others are still replayed. Exit status: 0 if all were replayed, 1 if some failed, 2 for wrong usage.
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

#ifdef SHAMPOO_REPLAY_MPI
#include <mpi.h>
#include <shampoo/shampoo_mpi.h>
#endif

namespace {

using shampoo::golden::Case;
using shampoo::golden::TensorFile;

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int32_t kMaxThreads = 1024;
constexpr int32_t kMaxRanks = 64;

struct Options {
  shampoo::golden::ReplayOptions replay;
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

void ParseKey(const std::string& text, shampoo::golden::ReplayOptions* replay) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) throw std::runtime_error("--set " + text + ": expected KEY=VALUE");
  replay->keys.emplace_back(text.substr(0, equals), text.substr(equals + 1));
}

void SetOption(const std::string& option, const std::string& value, Options* options) {
  shampoo::golden::ReplayOptions& replay = options->replay;
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
    replay.device = &shampoo::golden::DeviceNamed(value.c_str());
  } else if (option == "--perturb") {
    replay.perturb = static_cast<uint64_t>(ParseCount(option, value, 1, std::numeric_limits<int32_t>::max()));
  } else if (option == "--save-every") {
    replay.save_every = value;
  } else if (option == "--resume-from" || option == "--resume-across") {
    replay.resume_from = value;
    replay.resume_across = option == "--resume-across";
  } else if (option == "--out") {
    options->out = value;
  } else {
    throw std::runtime_error("unknown option " + option);
  }
}

Options ParseOptions(const std::vector<std::string>& arguments) {
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.starts_with("--")) {
      if (++i == arguments.size()) throw std::runtime_error(argument + " is unknown, or needs a value");
      SetOption(argument, arguments[i], &options);
    } else {
      options.cases.emplace_back(argument);
    }
  }
  if (options.out.empty()) throw std::runtime_error("--out DIR is missing");
  if (options.cases.empty()) throw std::runtime_error("no case: expected at least one file");
  return options;
}

using ReplayFunction = TensorFile (*)(const Case&, const shampoo::golden::ReplayOptions&);

ReplayFunction FunctionOfSuite(const std::string& suite) {
  if (suite.starts_with("trajectory")) {
    return shampoo::golden::ReplayTrajectory;
  }
  if (suite == "matrix_root") return shampoo::golden::ReplayMatrixRoot;
  if (suite == "matrix_root_extra") return shampoo::golden::ReplayMatrixRootExtra;
  if (suite == "matrix_root_newton_schulz") return shampoo::golden::ReplayOrthogonalize;
  if (suite == "training") return shampoo::golden::ReplayTraining;
  throw std::runtime_error("suite " + suite + " is not supported by this tool");
}

TensorFile Replay(const Case& recorded, const shampoo::golden::ReplayOptions& replay) {
  const auto suite = recorded.settings.at("suite").get<std::string>();
  const ReplayFunction function = FunctionOfSuite(suite);
  const auto source = recorded.settings.at("source").get<std::string>();
  // The settings of these cases are keys of the library, so every source is supported.
  const bool has_keys = source == "tests/golden/rules" || suite == "trajectory_muon" || suite == "trajectory_methods" ||
                        suite == "matrix_root_newton_schulz";
  if (!has_keys &&
      source != (suite.ends_with("_extra") ? "distributed_shampoo 2026-08" : "distributed_shampoo 2024-07")) {
    throw std::runtime_error("source " + source + " is not supported by this tool");
  }
  const bool is_plain = replay.save_every.empty() && replay.resume_from.empty() && replay.perturb == 0;
  if (function != shampoo::golden::ReplayTrajectory && !is_plain) {
    throw std::runtime_error("--perturb, --save-every, --resume-from and --resume-across are for trajectories only");
  }
  return function(recorded, replay);
}

void RunCase(const std::filesystem::path& path, const Options& options) {
  const std::filesystem::path target = options.out / path.filename();
  if (std::filesystem::exists(target) && std::filesystem::equivalent(path, target)) {
    throw std::runtime_error(
        "--out is the folder of the case itself, which would be overwritten: expected another folder");
  }
  std::filesystem::remove(target);  // the result of an earlier run must not be used
  Case recorded{path, {}, shampoo::golden::ReadSafetensors(path)};
  const auto text = recorded.data.metadata.find("case");
  if (text == recorded.data.metadata.end()) throw std::runtime_error("the metadata has no entry \"case\"");
  recorded.settings = nlohmann::json::parse(text->second);
  WriteSafetensors(target, Replay(recorded, options.replay));
}

}  // namespace

#ifdef SHAMPOO_REPLAY_MPI
namespace {

// Makes this process a rank of the job.
void BecomeRank(shampoo_comm_ops* ops, Options* options) {
  if (shampoo_mpi_ops(MPI_COMM_WORLD, ops) != MPI_SUCCESS) throw std::runtime_error("shampoo_mpi_ops failed");
  ops->release = nullptr;  // each case creates its own shampoo_comm from these callbacks
  options->replay.process = ops;
  if (ops->rank > 0) options->out += ".rank" + std::to_string(ops->rank);
}

}  // namespace
#endif

int main(int argc, char** argv) {
  Options options;
#ifdef SHAMPOO_REPLAY_MPI
  MPI_Init(&argc, &argv);
  shampoo_comm_ops ops = SHAMPOO_COMM_OPS_INIT;
#endif
  try {
    options = ParseOptions({argv + 1, argv + argc});
#ifdef SHAMPOO_REPLAY_MPI
    BecomeRank(&ops, &options);
#endif
    std::filesystem::create_directories(options.out);
  } catch (const std::exception& error) {
    std::cerr << "shampoo_replay: " << error.what() << "\n"
              << "usage: shampoo_replay [--threads N] [--ranks N] [--shard flat|rect] [--shards N]\n"
              << "       [--shard-mode local|gather] [--collectives all|all_gather] [--communicate WHAT]\n"
                 "       [--communication-dtype DTYPE] [--set KEY=VALUE]\n       [--device NAME] [--perturb SEED] "
                 "[--save-every DIR]\n       [--resume-from DIR] [--resume-across DIR] --out DIR CASE.safetensors...\n";
    return kUsage;
  }
  size_t failed = 0;
  for (const std::filesystem::path& path : options.cases) {
    try {
      RunCase(path, options);
    } catch (const std::exception& error) {
      ++failed;
      std::cerr << "FAIL " << path.filename().string() << ": " << error.what() << "\n";
    }
  }
  std::cout << options.cases.size() - failed << " replayed, " << failed << " failed\n";
#ifdef SHAMPOO_REPLAY_MPI
  MPI_Finalize();
#endif
  return failed == 0 ? 0 : kFailed;
}
