// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/thin_factors.h"

#include "core/base/amount.h"
#include "core/base/text.h"
#include "core/rules/schedule.h"

namespace shampoo {
namespace {

struct ThinFactor {
  const Block* block = nullptr;
  int dim = 0;
  int64_t rank = 0;  // at most
  int64_t step = 0;  // of its first inverse root
  int64_t lacking() const { return block == nullptr ? 0 : block->shape[dim] - rank; }
};

// Of full rank: its `block` is nullptr.
ThinFactor FactorAtFirstRoot(const Block& block, int dim, const Settings& settings) {
  // Pseudo-inverses leave such directions out. A relative epsilon bounds them against the others.
  if (settings.root_rank_handling == RankHandling::kPseudoInverse || settings.root_relative_epsilon > 0) return {};
  const int64_t step = FirstRefreshOf(RefreshKeysOf(settings), block.phase);
  const int64_t order = block.shape[dim];
  // A gradient adds as many outer products as there are elements along the other dims.
  const int64_t of_one = block.elements / order;
  if (step >= order || of_one * step >= order) return {};
  return {&block, dim, of_one * step, step};
}

}  // namespace

std::string TextOfThinFactors(const PlanData& plan) {
  int64_t count = 0;
  int64_t thin = 0;
  ThinFactor worst;
  for (const Block& block : plan.blocks) {
    for (int dim = 0; dim < block.factor_count(); ++dim) {
      ++count;
      const ThinFactor factor = FactorAtFirstRoot(block, dim, plan.groups[static_cast<size_t>(block.group)]);
      if (factor.block == nullptr) continue;
      ++thin;
      if (factor.lacking() > worst.lacking()) worst = factor;
    }
  }
  if (thin == 0) return {};
  const Block& block = *worst.block;
  const Settings& settings = plan.groups[static_cast<size_t>(block.group)];
  const bool is_relative = settings.root_method == RootMethod::kHigherOrder;
  return Cat("the first inverse roots rest on few gradients: ", thin, " of ", count,
             count == 1 ? " factor matrix" : " factor matrices", " cannot be of full rank by then, such as ",
             BlockName(plan.params[static_cast<size_t>(block.param)], block), "/factor.", worst.dim, " of order ",
             block.shape[worst.dim], " with a rank of at most ", worst.rank, " after ", CountText(worst.step, "step"),
             "; in all other directions it is the epsilon of ", settings.epsilon,
             is_relative ? " times its largest eigenvalue" : "",
             " alone, and the loss may not fall. Set root_relative_epsilon (the default suits most models) instead of "
             "epsilon, or a later start_preconditioning_step");
}

}  // namespace shampoo
