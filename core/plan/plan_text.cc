// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/plan_text.h"

#include "core/base/amount.h"
#include "core/base/text.h"
#include "core/rules/schedule.h"

namespace shampoo {
namespace {

// A factor matrix that cannot have full rank when its first inverse root is computed.
struct RankDeficientFactor {
  const Block* block = nullptr;
  int dim = 0;
  int64_t rank = 0;  // upper bound
  int64_t step = 0;  // the step that computes the first inverse root
  int64_t missing() const { return block == nullptr ? 0 : block->shape[dim] - rank; }
};

// Returns the factor matrix of a dim if the matrix cannot have full rank and this needs a warning. Otherwise `block` of
// the result is nullptr.
RankDeficientFactor FactorAtFirstRoot(const Block& block, int dim, const Settings& settings) {
  // No warning is needed in three cases. Methods with eigenbases compute no inverse roots. A pseudo-inverse is 0 in
  // directions without gradients. With a relative epsilon, the eigenvalues of the root in these directions are at most
  // a fixed multiple of its eigenvalues in other directions.
  if (UsesEigenbasis(settings.method)) return {};
  if (settings.root_rank_handling == RankHandling::kPseudoInverse || settings.root_relative_epsilon > 0) return {};
  const int64_t step = FirstRefreshOf(RefreshKeysOf(settings), block.phase);
  const int64_t size = block.shape[dim];
  // A gradient adds rank_of_gradient outer products to the matrix, so it raises the rank by at most this number.
  const int64_t rank_of_gradient = block.elements / size;
  if (step >= size || rank_of_gradient * step >= size) return {};
  return {&block, dim, rank_of_gradient * step, step};
}

std::string SizesText(const std::vector<int64_t>& sizes) {
  std::string text;
  for (const int64_t size : sizes) text += Cat(text.empty() ? "" : ",", size);
  return text;
}

}  // namespace

std::vector<std::string> PlanLines(const PlanData& plan, bool with_shards) {
  std::vector<std::string> lines;
  lines.push_back(Cat(CountText(static_cast<int64_t>(plan.params.size()), "parameter"), " in ",
                      CountText(static_cast<int64_t>(plan.groups.size()), "group")));
  for (size_t g = 0; g < plan.keys.size(); ++g) {
    for (const auto& [key, value] : plan.keys[g]) lines.push_back(Cat("group ", g, ": ", key, " is ", value));
  }
  for (size_t p = 0; p < plan.params.size(); ++p) {
    const ParamDesc& desc = plan.params[p].desc;
    std::string line =
        Cat("parameter ", p, ": \"", desc.name, "\" of shape ", ShapeText(desc.shape), ", stack_dims ", desc.stack_dims,
            ", group ", desc.group, ", param ", NameOf(desc.param_dtype), ", grad ", NameOf(desc.grad_dtype), ", out ",
            NameOf(desc.out_dtype), ", copy ", NameOf(desc.copy_dtype));
    if (desc.role != Role::kHidden) line += Cat(", role ", NameOf(desc.role));
    if (!desc.row_splits.empty()) line += Cat(", row_splits ", SizesText(desc.row_splits));
    if (!desc.row_splits.empty() || desc.fan != Fan::kOutIn) line += Cat(", fan ", NameOf(desc.fan));
    // If shards are gathered, all ranks must describe the same shards.
    if (plan.gathers && plan.shard_layouts[p].everywhere()) {
      line += ", held whole by every shard rank";
    } else if (plan.gathers) {
      line += Cat(", held in shards (shard_form, shampoo_plan_add_shard) with the checksum ",
                  plan.shard_layouts[p].Hash(plan.placement.shard_world));
    }
    if (with_shards && desc.form == ShardForm::kFlat) {
      line += Cat(", the flat shard of elements [", desc.flat_offset, ", ", desc.flat_offset + desc.flat_count, ")");
    } else if (with_shards && desc.form == ShardForm::kRectangle) {
      line += Cat(", the rectangle at ", ShapeText(desc.local_offset), " of shape ", ShapeText(desc.local_shape));
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string RankDeficientFactorsText(const PlanData& plan) {
  int64_t count = 0;
  int64_t deficient = 0;
  RankDeficientFactor worst;
  for (const Block& block : plan.blocks) {
    for (int dim = 0; dim < block.factor_count(); ++dim) {
      if (!block.has_factor(dim)) continue;
      ++count;
      const RankDeficientFactor factor = FactorAtFirstRoot(block, dim, plan.group(block));
      if (factor.block == nullptr) continue;
      ++deficient;
      if (factor.missing() > worst.missing()) worst = factor;
    }
  }
  if (deficient == 0) return {};
  const Block& block = *worst.block;
  const Settings& settings = plan.group(block);
  const bool is_relative = settings.root_method == RootMethod::kHigherOrder;
  return Cat(
      "too few gradients before the first inverse roots: ", deficient, " of ", count,
      count == 1 ? " factor matrix" : " factor matrices", " cannot have full rank by then, such as ",
      BlockName(plan.param(block), block), "/factor.", worst.dim, " of size ", block.shape[worst.dim],
      " with a rank of at most ", worst.rank, " after ", CountText(worst.step, "step"),
      "; in directions without gradients, this matrix consists of the epsilon of ", settings.epsilon,
      is_relative ? " times a bound on its largest eigenvalue" : "",
      " alone, and the loss might not decrease. Set root_relative_epsilon (the default suits most models) instead "
      "of epsilon, or a later start_preconditioning_step");
}

}  // namespace shampoo
