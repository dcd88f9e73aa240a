// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "core/plan/plan.h"
#include "core/step/bound_buffers.h"

namespace shampoo {

// The parameters that take part in a step.
class Participants {
 public:
  explicit Participants(const PlanData& plan) : plan_(plan), flags_(plan.params.size()) {}

  // Returns the flags by parameter: 1 if the parameter takes part in the step, otherwise 0.
  std::span<char> flags() { return flags_; }
  std::span<const char> flags() const { return flags_; }
  bool Contains(const Param& param) const { return flags_[static_cast<size_t>(&param - plan_.params.data())] != 0; }

  // Chooses the parameters that have a gradient on this rank.
  void ChooseOwnGradients(const BoundBuffers& buffers) {
    for (size_t p = 0; p < flags_.size(); ++p) flags_[p] = static_cast<char>(buffers.HasGradient(plan_.params[p]));
  }
  void ChooseAll() { std::fill(flags_.begin(), flags_.end(), char{1}); }

 private:
  const PlanData& plan_;
  std::vector<char> flags_;
};

}  // namespace shampoo
