// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/optimizer/thin_factors.h"

#include "core/base/amount.h"
#include "core/base/log.h"
#include "core/base/text.h"

namespace shampoo {

void ThinFactors::Enter(const Block& block, int64_t first_factor, const Settings& settings, int64_t step) noexcept {
  // Pseudo-inverses leave such directions out.
  if (is_told_ || settings.root_rank_handling == RankHandling::kPseudoInverse) return;
  for (int k = 0; k < block.order(); ++k) {
    const int64_t order = block.shape[k];
    ++seen_;
    // A gradient adds as many outer products as there are elements along the other dims.
    const int64_t of_one = block.elements / order;
    if (step >= order || of_one * step >= order) continue;
    ++thin_;
    const int64_t rank = of_one * step;
    if (worst_ >= 0 && order - rank <= worst_order_ - worst_rank_) continue;
    worst_ = first_factor + k;
    worst_order_ = order;
    worst_rank_ = rank;
    worst_step_ = step;
    worst_epsilon_ = settings.epsilon;
  }
}

void ThinFactors::Tell(std::span<const std::string> names) noexcept {
  if (is_told_) return;
  is_told_ = true;
  if (thin_ == 0) return;
  LogText(LogLevel::kInfo, [&] {
    return Cat("the first inverse roots rest on few gradients: ", thin_, " of ", seen_,
               " factor matrices cannot be of full rank, such as ", names[static_cast<size_t>(worst_)], " of order ",
               worst_order_, " and rank ", worst_rank_, " at most after ", CountText(worst_step_, "step"),
               "; all else in it is epsilon, ", worst_epsilon_,
               ". If the loss stands still from here on: a later start_preconditioning_step, a larger epsilon, "
               "use_merge_dims false, or a smaller max_preconditioner_dim");
  });
}

}  // namespace shampoo
