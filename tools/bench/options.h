// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bench {

enum class Mode { kRows, kGrid, kSimulate, kList, kInverseRoots, kOrthogonalization, kPeriod };

// The command line of shampoo_bench (options.cc explains the options). The fields `blocks`, `graftings` and
// `state_dtypes` are empty if the command line does not set them.
struct Options {
  Mode mode = Mode::kRows;
  std::vector<std::string> cases;  // {"all"} if a command line of mode kRows or kPeriod selects no case and no shapes
  std::vector<int> threads;
  std::vector<int64_t> blocks;
  std::vector<int64_t> frequencies = {1, 10, 50};
  std::vector<std::string> graftings;
  std::vector<std::string> state_dtypes;
  int min_runs = 10;
  int64_t period = 0;  // --period
  std::string device = "cpu";
  std::string plugin;
  std::string shapes;
  std::string shapes_file;
  std::string json;
  std::string chart;
  std::vector<std::pair<std::string, std::string>> keys;  // --set
};

// Parses the command line. Exits after --help and after an error.
Options ReadOptions(int argc, char** argv);

}  // namespace bench
