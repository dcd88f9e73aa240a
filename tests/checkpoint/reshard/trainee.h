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
  // Copies the values of this optimizer's parameters from `params`.
  void TakeParams(const std::map<std::string, std::vector<float>>& params);

  shampoo_optimizer* optimizer() const { return rank.optimizer; }

  RankSpec spec;
  Rank rank;
};

// Makes steps 1 to `steps`, which must succeed, and saves the optimizer.
void TrainAndSave(Trainee* saver, int steps, const std::string& path);

// The bytes of all state entries of blocks, by the key of the entry.
using States = std::map<std::string, std::vector<char>>;
States StatesOf(const Rank& rank);

// Checks that a load fails with this status and an error that contains all substrings `words`, and that the load
// changes nothing.
void CheckRefused(Rank* rank, const std::string& path, shampoo_status status, const std::vector<std::string>& words);
// Returns a message about the first of the substrings `words` that is not in the text, or "" if all are in the text.
std::string MissingWord(const std::string& text, const std::vector<std::string>& words);

}  // namespace shampoo_test
