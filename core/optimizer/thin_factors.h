// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/config/settings.h"
#include "core/plan/block.h"

namespace shampoo {

// Factor matrices whose first inverse roots rest on so few gradients that they cannot be of full rank: in all other
// directions they are epsilon alone, and their roots are large there. Of the first refresh, told in the log once.
class ThinFactors {
 public:
  // first_factor: the number of the block's first factor matrix in the plan. step: of the group; the gradients so far.
  void Enter(const Block& block, int64_t first_factor, const Settings& settings, int64_t step) noexcept;
  // At the end of a refresh.
  void Tell(std::span<const std::string> names) noexcept;

 private:
  bool is_told_ = false;
  int64_t seen_ = 0;
  int64_t thin_ = 0;
  // The one that lacks most of its rank.
  int64_t worst_ = -1;
  int64_t worst_order_ = 0;
  int64_t worst_rank_ = 0;
  int64_t worst_step_ = 0;
  double worst_epsilon_ = 0;
};

}  // namespace shampoo
