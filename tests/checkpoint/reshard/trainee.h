// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/distributed/grid.h"

namespace shampoo_test {

// Returns a small model with one group. `more` are further keys.
RankSpec SmallModel(const Keys& more = {});

// An optimizer with its parameters and gradients. Their values depend on the names of the parameters and on the step,
// but not on the order of the parameters.
class Trainee {
 public:
  explicit Trainee(const RankSpec& made_from);  // sets rank.status and rank.error
  // Makes the steps from number `first` to number `last` and stops at a failure. rank.status and rank.error are the
  // results of the last step.
  void Train(int first, int last);
  std::map<std::string, std::vector<float>> Params() const;
  void TakeParams(
      const std::map<std::string, std::vector<float>>& params);  // copies the parameters that this optimizer has

  shampoo_optimizer* optimizer() const { return rank.optimizer; }

  RankSpec spec;
  Rank rank;
};

// Makes steps 1 to `steps`, which must succeed, and saves the optimizer.
void TrainAndSave(Trainee* saver, int steps, const std::string& path);

// The bytes of all state entries of blocks, by key.
using States = std::map<std::string, std::vector<char>>;
States StatesOf(const Rank& rank);

// Checks that a load fails with this status and an error that has all words, and that the load changes nothing.
void CheckRefused(Rank* rank, const std::string& path, shampoo_status status, const std::vector<std::string>& words);
// Returns a message about the first word that is not in the text, or "" if the text has all words.
std::string MissingWord(const std::string& text, const std::vector<std::string>& words);

}  // namespace shampoo_test
