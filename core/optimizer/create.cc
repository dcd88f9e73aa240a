// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <optional>

#include "core/backend/cpu/cpu_backend.h"
#include "core/base/amount.h"
#include "core/base/caught.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/comm/agreement.h"
#include "core/optimizer/check_phase.h"
#include "core/optimizer/device_staging.h"
#include "core/optimizer/on_device.h"
#include "core/optimizer/optimizer.h"
#include "core/plan/cost.h"
#include "core/plan/memory_layout.h"
#include "core/plan/plan_text.h"

namespace shampoo {
namespace {

// What no agreement with other ranks could be reached over.
Status CheckUsable(const OptimizerDesc& desc) {
  for (const auto& [kind, comm] :
       {std::pair{"replica", desc.replica_comm.get()}, std::pair{"shard", desc.shard_comm.get()}}) {
    if (comm == nullptr) continue;
    const bool on_device = desc.device == DeviceType::kCuda;
    if (on_device && kind == std::string_view("shard")) {
      return Unsupported(
          "desc.shard_comm is not NULL, and shards on a GPU (device_type SHAMPOO_CUDA) are stepped without asking each "
          "other yet: expected NULL");
    }
    if (on_device && !comm->takes_device_memory()) {
      return Unsupported("desc.", kind,
                         "_comm takes memory of the host, and the optimizer is on a GPU: give a communicator whose "
                         "device_type is SHAMPOO_CUDA");
    }
    if (!on_device && comm->takes_device_memory()) {
      return Unsupported("desc.", kind,
                         "_comm takes memory of a GPU, and the optimizer is on the CPU: give a communicator whose "
                         "device_type is SHAMPOO_CPU");
    }
    if (comm->failed()) return comm->FailedBefore();
  }
  return {};
}

// An engine of no blocks, where none could be made for the plan: it takes memory of the device to tell other ranks so.
Status CreateSpare(const OptimizerDesc& desc, std::unique_ptr<cuda::DeviceEngine>* out) {
  auto plan = std::make_shared<PlanData>();
  plan->placement.device = desc.device;
  plan->groups.emplace_back();
  plan->state_bytes_of_rank = {kArenaAlignment};
  return cuda::DeviceEngine::Create(std::move(plan), {desc.device_id, desc.allocator, desc.stream, nullptr}, out);
}

// Which algorithm parameters get, whose shards lie on several ranks.
std::string TextOfForms(const PlanData& plan) {
  int whole = 0;
  int pieces = 0;
  int skipped = 0;
  for (const Param& param : plan.params) {
    if (param.block_count == 0) {
      ++skipped;
    } else {
      ++(plan.blocks[static_cast<size_t>(param.first_block)].piece_of_shard ? pieces : whole);
    }
  }
  return Cat("shards: shard_mode ", plan.gathers ? "gather" : "local", ", ", plan.placement.shard_world,
             " shard ranks; ", whole, " parameters are preconditioned whole, ", pieces,
             " as pieces of this rank's shards, ", skipped, " have no elements here and are skipped");
}

}  // namespace

Optimizer::Optimizer(std::shared_ptr<const PlanData> plan) : plan_(std::move(plan)) {}
Optimizer::~Optimizer() = default;

Status Optimizer::Create(std::shared_ptr<const PlanData> plan, const OptimizerDesc& desc, Status given,
                         std::unique_ptr<Optimizer>* out) {
  SHAMPOO_RETURN_IF_ERROR(CheckUsable(desc));
  if (desc.shard_comm) desc.shard_comm->Call("shard rank");
  // Taken even by a rank that fails here, as all others do.
  const Numbers numbers{desc.replica_comm ? desc.replica_comm->TakeNumber() : 0,
                        desc.shard_comm ? desc.shard_comm->TakeNumber() : 0};
  // A rank that cannot go on takes part all the same: the others would wait for it.
  Status status = std::move(given);
  std::unique_ptr<Optimizer> optimizer;
  std::vector<std::string> shard_lines;
  std::vector<std::string> replica_lines;
  if (status.ok()) {
    status = Caught([&]() -> Status {
      optimizer.reset(new Optimizer(plan));
      SHAMPOO_RETURN_IF_ERROR(optimizer->CheckCommunicators(desc));
      if (desc.shard_comm) shard_lines = PlanLines(*plan, false);
      if (plan->gathers) {
        shard_lines.push_back(desc.shard_comm->has_all_to_all() ? "a communicator with all_to_all"
                                                                : "a communicator without all_to_all");
      }
      if (desc.replica_comm) replica_lines = PlanLines(*plan, true);
      return optimizer->Build(desc, numbers);
    });
  }
  std::unique_ptr<cuda::DeviceEngine> spare;
  std::optional<DeviceStaging> staging;
  std::optional<StagingScope> staged;
  if (desc.device == DeviceType::kCuda && desc.replica_comm) {
    const bool is_built = optimizer != nullptr && optimizer->on_device();
    if (!is_built && !CreateSpare(desc, &spare).ok()) {
      desc.replica_comm->GiveUp();
      return status;
    }
    staging.emplace(is_built ? optimizer->device_->engine.get() : spare.get(), desc.stream);
    staged.emplace(desc.replica_comm.get(), &*staging);
  }
  struct Ranks {
    Communicator* comm;
    const std::vector<std::string>& lines;
  };
  for (const Ranks& ranks :
       {Ranks{desc.shard_comm.get(), shard_lines}, Ranks{desc.replica_comm.get(), replica_lines}}) {
    if (ranks.comm == nullptr) continue;
    status = AgreeOnStatus(ranks.comm, status);
    if (status.ok()) status = CompareLines(ranks.comm, ranks.lines);
  }
  // What copies of one shard found must stop the others, too.
  if (desc.shard_comm && desc.replica_comm) status = AgreeOnStatus(desc.shard_comm.get(), status);
  SHAMPOO_RETURN_IF_ERROR(std::move(status));
  const PlanData& data = *plan;
  Status initialized = optimizer->InitializeState();
  if (!initialized.ok()) {
    // The others have theirs, and would wait for this rank in a step.
    if (desc.replica_comm) desc.replica_comm->GiveUp();
    return initialized;
  }
  LogText(LogLevel::kInfo, [&data] {
    return Cat("optimizer: ", CountText(static_cast<int64_t>(data.params.size()), "parameter"), " in ",
               CountText(static_cast<int64_t>(data.groups.size()), "group"), ", ",
               CountText(static_cast<int64_t>(data.blocks.size()), "block"), data.ranks() == 1 ? "" : " of all ranks",
               ", ", data.state_bytes(), " bytes of state, ",
               data.workspace_bytes_of_rank[static_cast<size_t>(data.rank())], " of workspace, ",
               CountText(data.threads, "thread"));
  });
  if (data.placement.shard_world > 1) LogText(LogLevel::kInfo, [&data] { return TextOfForms(data); });
  LogText(LogLevel::kWarning, [&data] { return RankDeficientFactorsText(data); });
  *out = std::move(optimizer);
  return {};
}

Status Optimizer::CheckCommunicators(const OptimizerDesc& desc) const {
  const Placement& placement = plan_->placement;
  if (plan_->gathers && desc.shard_comm == nullptr) {
    return Invalid("desc.shard_comm is NULL, shard_mode is gather and the plan's shard_world is ",
                   placement.shard_world, ": give a communicator of the shard ranks, or set shard_mode local");
  }
  if (desc.replica_comm == nullptr && placement.replica_world != 1) {
    return Invalid("desc.replica_comm is NULL and the plan's replica_world is ", placement.replica_world,
                   ": give a communicator of as many ranks, or make a plan with a replica_world of 1");
  }
  const auto check = [](const char* kind, const Communicator* comm, int rank, int world) -> Status {
    if (comm == nullptr) return {};
    if (comm->world() != world || comm->rank() != rank) {
      return Invalid("desc.", kind, "_comm is rank ", comm->rank(), " of ", comm->world(), ", and the plan's ", kind,
                     "_rank is ", rank, " and its ", kind, "_world ", world, ": expected the same of both");
    }
    return {};
  };
  SHAMPOO_RETURN_IF_ERROR(check("replica", desc.replica_comm.get(), placement.replica_rank, placement.replica_world));
  return check("shard", desc.shard_comm.get(), placement.shard_rank, placement.shard_world);
}

// All that one rank makes by itself.
Status Optimizer::Build(const OptimizerDesc& desc, const Numbers& numbers) {
  const PlanData& data = *plan_;
  if (desc.device != data.placement.device) {
    const auto name = [](DeviceType type) { return type == DeviceType::kCpu ? "SHAMPOO_CPU (1)" : "SHAMPOO_CUDA (2)"; };
    return Invalid("desc.device_type is ", name(desc.device), ", and that of the plan ", name(data.placement.device),
                   ": expected the same of both, as the plan counts bytes for its own");
  }
  replica_comm_ = desc.replica_comm;
  SHAMPOO_RETURN_IF_ERROR(CheckGivenState(desc));
  owns_state_ = desc.state == nullptr;
  if (desc.device == DeviceType::kCpu) SHAMPOO_RETURN_IF_ERROR(AllocateState(desc));
  for (const Settings& settings : data.groups) {
    groups_.emplace_back();
    groups_.back().settings = settings;
  }
  for (const Block& block : data.blocks) {
    if (block.computation == Dtype::kF32) groups_[static_cast<size_t>(block.group)].narrowest = Dtype::kF32;
  }
  buffers_.resize(data.params.size());
  bound_.resize(data.params.size(), false);
  entries_ = ListEntries(data);
  if (desc.device != DeviceType::kCpu) return BuildOnDevice(desc, numbers);
  if (data.placement.replica_world > 1) {
    SHAMPOO_RETURN_IF_ERROR(Exchange::Create(data, desc.replica_comm, numbers.of_replicas, desc.allocator, &exchange_));
  }
  if (desc.shard_comm != nullptr) shards_ = std::make_unique<ShardStatus>(data, desc.shard_comm, numbers.of_shards);
  if (data.gathers) {
    SHAMPOO_RETURN_IF_ERROR(Gathering::Create(data, desc.shard_comm, numbers.of_shards, desc.allocator, &gathering_));
  }
  PrepareStep();
  return CpuBackend::Create(data, desc.executor, desc.allocator, &backend_);
}

Status Optimizer::CheckGivenState(const OptimizerDesc& desc) const {
  if (desc.state == nullptr) return {};
  const int64_t needed = plan_->state_bytes();
  if (desc.state_bytes < static_cast<size_t>(needed)) {
    return Invalid("state_bytes is ", desc.state_bytes, ": the plan's \"state\" bytes are ", needed);
  }
  if (reinterpret_cast<uintptr_t>(desc.state) % kStateAlignment == 0) return {};
  return Invalid("state is not aligned: expected a multiple of ", kStateAlignment, " bytes");
}

Status Optimizer::AllocateState(const OptimizerDesc& desc) {
  created_state_ = static_cast<char*>(desc.state);
  if (desc.state == nullptr) {
    SHAMPOO_RETURN_IF_ERROR(Allocation::Create(desc.allocator, plan_->state_bytes(), "state", &own_state_));
    created_state_ = own_state_.data();
  }
  state_in_ = created_state_;
  state_out_ = created_state_;
  return {};
}

// What stands for the workspace and the backend of the CPU.
Status Optimizer::BuildOnDevice(const OptimizerDesc& desc, const Numbers& numbers) {
  auto made = std::make_unique<OnDevice>();
  made->stream = desc.stream;
  made->lags = plan_->groups[0].status_lag != 0;
  made->counters.resize(groups_.size());
  made->asked.steps.resize(groups_.size());
  made->asked.tasks.resize(plan_->blocks.size());
  made->ahead.resize(plan_->blocks.size());
  made->numbers.resize(groups_.size());
  made->steps.resize(groups_.size());
  made->tasks.resize(plan_->blocks.size());
  made->snapshot_steps.resize(plan_->blocks.size());
  made->snapshot_steps_before.resize(plan_->blocks.size());
  made->has_snapshots = std::any_of(plan_->blocks.begin(), plan_->blocks.end(), [this](const Block& block) {
    return Owns(block) && block.snapshot_step.present();
  });
  roots_.Prepare(*plan_);
  if (plan_->placement.replica_world > 1) {
    made->comm = replica_comm_.get();
    made->number = numbers.of_replicas;
    inputs_.resize(plan_->params.size() + groups_.size() + 1);
  }
  SHAMPOO_RETURN_IF_ERROR(
      cuda::DeviceEngine::Create(plan_, {desc.device_id, desc.allocator, desc.stream, desc.state}, &made->engine));
  if (made->comm != nullptr) {
    // What failures are told by: a step allocates nothing.
    const size_t segment = std::max(kTextBytes, inputs_.size() * sizeof inputs_[0]);
    void* unused = nullptr;
    SHAMPOO_RETURN_IF_ERROR(
        made->engine->Staging(static_cast<int64_t>(segment) * plan_->placement.replica_world, &unused));
  }
  created_state_ = desc.state != nullptr ? static_cast<char*>(desc.state) : made->engine->state();
  state_in_ = created_state_;
  state_out_ = created_state_;
  device_ = std::move(made);
  return {};
}

void Optimizer::PrepareStep() {
  const std::vector<Block>& blocks = plan_->blocks;
  blocks_by_cost_.resize(blocks.size());
  std::iota(blocks_by_cost_.begin(), blocks_by_cost_.end(), 0);
  // Small blocks stay in the order of the plan, in which they lie in memory: with very many of them most of a step
  // would be spent on cache misses.
  const auto cost = [&](int64_t i) { return std::max(StepCost(blocks[static_cast<size_t>(i)]), kCostOfSmallBlock); };
  std::stable_sort(blocks_by_cost_.begin(), blocks_by_cost_.end(),
                   [&](int64_t a, int64_t b) { return cost(a) > cost(b); });
  items_.reserve(blocks.size());
  item_of_block_.resize(blocks.size());
  bad_items_.reserve(blocks.size());
  refreshed_.resize(blocks.size());
  stood_still_.resize(blocks.size());
  is_bad_.resize(blocks.size());
  roots_.Prepare(*plan_);
  gradient_bound_.resize(plan_->params.size());
  shard_steps_.resize(groups_.size());
  shard_gradients_.resize(plan_->params.size());
  if (gathering_) PrepareGathering();
  if (exchange_ || gathering_) bucket_items_.reserve(blocks.size());
  if (exchange_) {
    inputs_.resize(plan_->params.size() + groups_.size() + 1);
    parameter_hash_.resize(plan_->params.size());
  }
  // The check phase lists gradients and parameters, or all factors.
  int64_t scanned = 0;
  for (const Param& param : plan_->params) scanned += 2 * StretchCount(param.elements);
  int64_t factors = 0;
  int64_t owned = 0;
  for (const Block& block : blocks) {
    factors += block.factor_count();
    // Those of other replicas' ranks at this place, too, which may have to be looked at.
    const bool comes_here = gathering_ && block.shard_owner == plan_->placement.shard_rank;
    if (comes_here) owned += 2 * StretchCount(block.elements);
  }
  scanned_.reserve(std::max(plan_->params.size(), block_bound_.size()));
  const int64_t stretches = std::max({scanned, factors, owned});
  stretches_.reserve(static_cast<size_t>(stretches));
  stretch_param_.reserve(static_cast<size_t>(stretches));
  stretch_largest_.resize(static_cast<size_t>(stretches));
  if (plan_->groups[0].verify_replicas > 0) stretch_hash_.resize(static_cast<size_t>(stretches));
}

}  // namespace shampoo
