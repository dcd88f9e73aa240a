// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/checkpoint/index.h"
#include "core/state/optimizer_state.h"

namespace shampoo {

// What an index says of an optimizer, but for its blocks: the same on all ranks that have the same parameters.

// Returns the hyper-parameters of a group that are in force; the step is left 0.
StoredGroup DescribeHyperParameters(const OptimizerState& optimizer, int group);

// Appends one text for each group, then one for each parameter, with the number of the optimizer on its rank.
Status DescriptionTexts(const OptimizerState& optimizer, int number, std::vector<std::string>* texts);

// Makes one list of groups and one of parameters from the texts of all ranks.
class Descriptions {
 public:
  void Add(int rank, const std::string& text);
  // Fails where two optimizers do not agree on a parameter.
  Status status() const { return status_.Copy(); }
  const std::vector<StoredGroup>& groups() const { return groups_; }
  const std::vector<StoredParam>& params() const { return params_; }

 private:
  struct Teller {
    int rank;
    int64_t optimizer;
    std::vector<int> groups;  // where its groups are among all
  };
  Teller& TellerOf(int rank, int64_t optimizer);
  Status TryToAdd(int rank, const std::string& text);
  // has_elements: on the rank that tells it. One that has none knows nothing of the steps.
  Status AddParam(const Teller& teller, StoredParam param, bool has_elements);

  Status status_;
  std::vector<Teller> tellers_;
  std::vector<StoredGroup> groups_;
  std::vector<StoredParam> params_;
  std::vector<bool> has_elements_;        // of params_
  std::map<std::string, size_t> places_;  // of parameters, by name
};

}  // namespace shampoo
