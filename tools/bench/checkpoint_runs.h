// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/distributed/job.h"

namespace bench {

// What is saved.
struct CheckpointSize {
  int64_t mib = 1024;  // of state, about
  int64_t dim = 1024;  // of its matrices, half of which are one block each, and half of them four
};

struct CheckpointRun {
  double dd_write, save, dd_read, load;  // bytes per second
};

// shampoo_save and shampoo_load of one rank, and dd with as many bytes, in a directory of their own, which is removed
// in the end.
class CheckpointRuns {
 public:
  CheckpointRuns(const CheckpointSize& size, const std::string& directory);
  ~CheckpointRuns();
  CheckpointRuns(const CheckpointRuns&) = delete;
  CheckpointRuns& operator=(const CheckpointRuns&) = delete;

  // All four; dd_first: which of two is the first.
  CheckpointRun TimeOnce(bool dd_first);
  int64_t bytes() const { return bytes_; }  // of the files of states

 private:
  double Save();

  shampoo_test::RankSpec model_;
  std::string folder_, saved_, dd_file_;
  std::unique_ptr<shampoo_test::Rank> rank_;
  std::vector<std::string> states_;  // always of the same names, as each checkpoint is the first of its directory
  int64_t bytes_ = 0;
};

}  // namespace bench
