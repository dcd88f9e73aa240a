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

// Descriptions of groups and parameters for the index of a checkpoint (index.h). Each rank describes the groups and
// parameters of its optimizers as JSON texts, and rank 0 merges the texts. If several ranks have the same descriptions
// of an optimizer, only the lowest of these ranks sends them (duplicates.h).

// Returns the current hyper-parameters of a group. Does not set StoredGroup::step.
StoredGroup DescribeHyperParameters(const OptimizerState& optimizer, int group);

// Appends a JSON text for each group, then a JSON text for each parameter. number: the index of the optimizer among the
// optimizers of this rank.
Status DescriptionTexts(const OptimizerState& optimizer, int number, std::vector<std::string>* texts);

// Merges the texts of all ranks into one list of groups and one list of parameters.
class Descriptions {
 public:
  void Add(int rank, const std::string& text);
  // Returns an error if a text was not valid, or if two texts describe the same parameter differently.
  Status status() const { return status_.Copy(); }
  const std::vector<StoredGroup>& groups() const { return groups_; }
  const std::vector<StoredParam>& params() const { return params_; }

 private:
  // An optimizer that a rank has described.
  struct Source {
    int rank;
    int64_t optimizer;        // its index on that rank
    std::vector<int> groups;  // positions of its groups in groups_
  };
  Source& SourceOf(int rank, int64_t optimizer);
  Status TryToAdd(int rank, const std::string& text);
  // has_elements: whether the source has elements of the parameter. If not, the step counter of the group may be too
  // small on that source.
  Status AddParam(const Source& source, StoredParam param, bool has_elements);

  Status status_;
  std::vector<Source> sources_;
  std::vector<StoredGroup> groups_;
  std::vector<StoredParam> params_;
  std::vector<bool> has_elements_;        // for each of params_: whether any source has elements of the parameter
  std::map<std::string, size_t> places_;  // maps the name of a parameter to its position in params_
};

}  // namespace shampoo
