// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/distributed/grid.h"

namespace shampoo_test {

// A small model; more: keys of all groups.
RankSpec SmallModel(const Keys& more = {});

// An optimizer whose parameters and gradients depend on their names and on the step alone, whatever others it has and
// in whichever order.
class Trainee {
 public:
  explicit Trainee(const RankSpec& made_from);  // rank.status tells how it went
  // Steps first to last; status and error are those of the last that was made: it stops at a failure.
  void Train(int first, int last);
  std::map<std::string, std::vector<float>> Params() const;
  void TakeParams(const std::map<std::string, std::vector<float>>& params);  // of which it needs its own

  shampoo_optimizer* optimizer() const { return rank.optimizer; }

  RankSpec spec;
  Rank rank;
};

// What all entries of blocks have, by key.
using States = std::map<std::string, std::vector<char>>;
States StatesOf(const Rank& rank);

// A load that fails, with a text that has all the words, and leaves all as it was.
void CheckRefused(Rank* rank, const std::string& path, shampoo_status status, const std::vector<std::string>& words);
// The first of the words that a text lacks, beside the text; "" where it has all.
std::string Lacking(const std::string& text, const std::vector<std::string>& words);

// What the library says while this lives.
class Log {
 public:
  explicit Log(int32_t max_level = 1);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  std::vector<std::string> Take();

 private:
  static void Receive(void* user, int32_t level, const char* message);
  std::mutex mutex_;
  std::vector<std::string> messages_;
};

}  // namespace shampoo_test
