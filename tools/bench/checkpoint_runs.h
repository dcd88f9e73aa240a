// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/distributed/job.h"

namespace bench {

// The size of the model whose state is saved.
struct CheckpointSize {
  int64_t mib = 1024;  // approximate size of the state in MiB
  int64_t dim = 1024;  // rows and columns of a parameter; every second parameter has four blocks, the others have one
};

struct CheckpointRun {
  double dd_write, save, dd_read, load;  // bytes per second
};

// Measures the rates of shampoo_save and shampoo_load on one rank, and of the program dd for the same number of bytes.
// All files are in a temporary folder in `directory`.
class CheckpointRuns {
 public:
  CheckpointRuns(const CheckpointSize& size, const std::string& directory);
  ~CheckpointRuns();
  CheckpointRuns(const CheckpointRuns&) = delete;
  CheckpointRuns& operator=(const CheckpointRuns&) = delete;

  // Measures all four rates. dd_first: whether dd runs before the library.
  CheckpointRun TimeOnce(bool dd_first);
  int64_t bytes() const { return bytes_; }  // size of the data files

 private:
  double Save();

  shampoo_test::RankSpec model_;
  std::string folder_, saved_, dd_file_;
  std::unique_ptr<shampoo_test::Rank> rank_;
  std::vector<std::string> data_files_;  // every save creates files with the same paths
  int64_t bytes_ = 0;
};

}  // namespace bench
