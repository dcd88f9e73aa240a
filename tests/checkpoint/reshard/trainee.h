// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/distributed/grid.h"

namespace shampoo_test {

// Returns a small model. `more` are keys of all groups.
RankSpec SmallModel(const Keys& more = {});

// An optimizer whose parameters and gradients depend only on their names and on the step, not on their order.
class Trainee {
 public:
  explicit Trainee(const RankSpec& made_from);  // rank.status is the result
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

// Checks that a load fails with all words in its error and changes nothing.
void CheckRefused(Rank* rank, const std::string& path, shampoo_status status, const std::vector<std::string>& words);
// Returns a message about the first of the words that is not in the text, or "" if all are.
std::string MissingWord(const std::string& text, const std::vector<std::string>& words);

}  // namespace shampoo_test
