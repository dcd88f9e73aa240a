// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/distributed/job.h"

namespace bench {

// The state to save.
struct CheckpointSize {
  int64_t mib = 1024;  // approximate size of the state
  int64_t dim = 1024;  // order of its matrices; half of them have one block, half have four
};

struct CheckpointRun {
  double dd_write, save, dd_read, load;  // bytes per second
};

// Measures shampoo_save and shampoo_load of one rank, and dd with the same number of bytes. The files are in a new
// directory, which the destructor deletes.
class CheckpointRuns {
 public:
  CheckpointRuns(const CheckpointSize& size, const std::string& directory);
  ~CheckpointRuns();
  CheckpointRuns(const CheckpointRuns&) = delete;
  CheckpointRuns& operator=(const CheckpointRuns&) = delete;

  // Measures all four rates. dd_first: dd before the library.
  CheckpointRun TimeOnce(bool dd_first);
  int64_t bytes() const { return bytes_; }  // size of the files with states

 private:
  double Save();

  shampoo_test::RankSpec model_;
  std::string folder_, saved_, dd_file_;
  std::unique_ptr<shampoo_test::Rank> rank_;
  std::vector<std::string> states_;  // same names for each checkpoint, because it is the first in its directory
  int64_t bytes_ = 0;
};

}  // namespace bench
