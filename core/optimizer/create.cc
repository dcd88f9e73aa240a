// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "core/backend/cpu/cpu_backend.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/optimizer/check_phase.h"
#include "core/optimizer/optimizer.h"
#include "core/plan/cost.h"
#include "core/plan/layout.h"

namespace shampoo {

Status Optimizer::Create(std::shared_ptr<const PlanData> plan, const OptimizerDesc& desc,
                         std::unique_ptr<Optimizer>* out) {
  if (plan->placement.replica_world != 1) {
    return Unsupported("the plan's replica_world is ", plan->placement.replica_world,
                       " and there is no communicator: make a plan with a replica_world of 1");
  }
  std::unique_ptr<Optimizer> optimizer(new Optimizer(std::move(plan)));
  const PlanData& data = *optimizer->plan_;
  SHAMPOO_RETURN_IF_ERROR(optimizer->AllocateState(desc));
  for (const Settings& settings : data.groups) {
    optimizer->groups_.emplace_back();
    optimizer->groups_.back().settings = settings;
  }
  for (const Block& block : data.blocks) {
    if (block.computation == Dtype::kF32) optimizer->groups_[static_cast<size_t>(block.group)].narrowest = Dtype::kF32;
  }
  optimizer->buffers_.resize(data.params.size());
  optimizer->bound_.resize(data.params.size(), false);
  optimizer->entries_ = ListEntries(data, data.placement.replica_rank);
  optimizer->PrepareStep();
  // Last, because a failure after it would release what the host still owns.
  SHAMPOO_RETURN_IF_ERROR(CpuBackend::Create(data, desc.executor, desc.allocator, &optimizer->backend_));

  std::fill_n(optimizer->state_out_, CounterBytes(static_cast<int64_t>(data.groups.size())), char{0});
  optimizer->backend_->InitializeState(data.blocks, data.groups, optimizer->state_out_);
  LogText(LogLevel::kInfo, [&data] {
    return Cat("optimizer: ", data.params.size(), " parameters in ", data.groups.size(), " groups, ",
               data.blocks.size(), " blocks, ", data.state_bytes_of_rank[0], " bytes of state, ",
               data.workspace_bytes_of_rank[0], " of workspace, ", data.threads, " threads");
  });
  *out = std::move(optimizer);
  return {};
}

Status Optimizer::AllocateState(const OptimizerDesc& desc) {
  const int64_t needed = plan_->state_bytes_of_rank[static_cast<size_t>(plan_->placement.replica_rank)];
  if (desc.state == nullptr) {
    SHAMPOO_RETURN_IF_ERROR(Allocation::Create(desc.allocator, needed, "state", &own_state_));
    created_state_ = own_state_.data();
  } else {
    if (desc.state_bytes < static_cast<size_t>(needed)) {
      return Invalid("state_bytes is ", desc.state_bytes, ": the plan's \"state\" bytes are ", needed);
    }
    if (reinterpret_cast<uintptr_t>(desc.state) % kArenaAlignment != 0) {
      return Invalid("state is not aligned: expected a multiple of ", kArenaAlignment, " bytes");
    }
    created_state_ = static_cast<char*>(desc.state);
  }
  state_in_ = created_state_;
  state_out_ = created_state_;
  return {};
}

void Optimizer::PrepareStep() {
  const std::vector<Block>& blocks = plan_->blocks;
  blocks_by_cost_.resize(blocks.size());
  std::iota(blocks_by_cost_.begin(), blocks_by_cost_.end(), 0);
  std::stable_sort(blocks_by_cost_.begin(), blocks_by_cost_.end(), [&](int64_t a, int64_t b) {
    return StepCost(blocks[static_cast<size_t>(a)]) > StepCost(blocks[static_cast<size_t>(b)]);
  });
  items_.reserve(blocks.size());
  item_of_block_.resize(blocks.size());
  bad_items_.reserve(blocks.size());
  refreshed_.resize(blocks.size());
  stood_still_.resize(blocks.size());
  is_bad_.resize(blocks.size());
  roots_.Prepare(*plan_);
  gradient_bound_.resize(plan_->params.size());
  // The check phase lists gradients and parameters, or all factors.
  int64_t scanned = 0;
  for (const Param& param : plan_->params) scanned += 2 * StretchCount(param.elements);
  int64_t factors = 0;
  for (const Block& block : blocks) factors += block.order();
  const int64_t stretches = std::max(scanned, factors);
  stretches_.reserve(static_cast<size_t>(stretches));
  stretch_param_.reserve(static_cast<size_t>(stretches));
  stretch_largest_.resize(static_cast<size_t>(stretches));
}

}  // namespace shampoo
