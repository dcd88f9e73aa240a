// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Replays recorded cases through the public C API:
//   shampoo_replay [--threads N] --out DIR CASE.safetensors...
// For each case DIR/<the same file name> gets the tensors that compare.py judges. A case that fails is reported and
// leaves no file; the others go on. Exit status: 0 all replayed, 1 some failed, 2 wrong usage.
#include <charconv>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/golden/suites.h"

namespace {

using shampoo::golden::Case;
using shampoo::golden::TensorFile;

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int32_t kMaxThreads = 1024;

struct Options {
  int32_t threads = 0;
  std::filesystem::path out;
  std::vector<std::filesystem::path> cases;
};

int32_t ParseThreads(const std::string& text) {
  int32_t threads = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
  if (error != std::errc() || end != text.data() + text.size() || threads < 0 || threads > kMaxThreads) {
    throw std::runtime_error("--threads " + text + ": expected 0 (all cores) to " + std::to_string(kMaxThreads));
  }
  return threads;
}

Options ParseOptions(const std::vector<std::string>& arguments) {
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--threads" || argument == "--out") {
      if (++i == arguments.size()) throw std::runtime_error(argument + " needs a value");
      if (argument == "--threads") {
        options.threads = ParseThreads(arguments[i]);
      } else {
        options.out = arguments[i];
      }
    } else if (argument.starts_with("--")) {
      throw std::runtime_error("unknown option " + argument);
    } else {
      options.cases.emplace_back(argument);
    }
  }
  if (options.out.empty()) throw std::runtime_error("--out DIR is missing");
  if (options.cases.empty()) throw std::runtime_error("no case was given");
  return options;
}

using ReplayFunction = TensorFile (*)(const Case&, int32_t);

ReplayFunction FunctionOfSuite(const std::string& suite) {
  if (suite == "trajectory") return shampoo::golden::ReplayTrajectory;
  if (suite == "matrix_root") return shampoo::golden::ReplayMatrixRoot;
  if (suite == "matrix_root_extra") return shampoo::golden::ReplayMatrixRootExtra;
  if (suite == "training") return shampoo::golden::ReplayTraining;
  throw std::runtime_error("suite " + suite + " is not known to this tool");
}

TensorFile Replay(const Case& recorded, int32_t threads) {
  const ReplayFunction function = FunctionOfSuite(recorded.settings.at("suite").get<std::string>());
  const auto source = recorded.settings.at("source").get<std::string>();
  const bool extra = recorded.settings.at("suite") == "matrix_root_extra";
  if (source != (extra ? "distributed_shampoo 2026-08" : "distributed_shampoo 2024-07")) {
    throw std::runtime_error("source " + source + " is not known to this tool");
  }
  return function(recorded, threads);
}

void RunCase(const std::filesystem::path& path, const Options& options) {
  const std::filesystem::path target = options.out / path.filename();
  if (std::filesystem::exists(target) && std::filesystem::equivalent(path, target)) {
    throw std::runtime_error("--out is the folder of the case itself, which would be overwritten: name another");
  }
  std::filesystem::remove(target);  // an earlier run's answer must not stand for this one
  Case recorded{path, {}, shampoo::golden::ReadSafetensors(path)};
  const auto text = recorded.data.metadata.find("case");
  if (text == recorded.data.metadata.end()) throw std::runtime_error("the metadata has no entry \"case\"");
  recorded.settings = nlohmann::json::parse(text->second);
  WriteSafetensors(target, Replay(recorded, options.threads));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  try {
    options = ParseOptions({argv + 1, argv + argc});
    std::filesystem::create_directories(options.out);
  } catch (const std::exception& error) {
    std::cerr << "shampoo_replay: " << error.what() << "\n"
              << "usage: shampoo_replay [--threads N] --out DIR CASE.safetensors...\n";
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
  return failed == 0 ? 0 : kFailed;
}
