// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/host_memory.h"
#include "core/backend/cuda/device_state_memory.h"
#include "core/base/amount.h"
#include "core/base/catch_exceptions.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/comm/agreement.h"
#include "core/optimizer/optimizer.h"
#include "core/plan/memory_layout.h"
#include "core/plan/plan_text.h"
#include "core/step/device_replicas.h"
#include "core/step/device_shards.h"
#include "core/step/device_step.h"
#include "core/step/gathered_step.h"
#include "core/step/host_roots.h"
#include "core/step/host_step.h"

namespace shampoo {
namespace {

// Makes the checks that must pass before this rank can use its communicators. If a check fails, this rank makes no
// exchange, and the other ranks may wait for this rank.
Status CheckUsable(const OptimizerDesc& desc) {
  for (const auto& [kind, comm] :
       {std::pair{"replica", desc.replica_comm.get()}, std::pair{"shard", desc.shard_comm.get()}}) {
    if (comm == nullptr) continue;
    if (desc.device != DeviceType::kCuda && comm->takes_device_memory()) {
      return Unsupported(
          "desc.", kind,
          "_comm takes buffers in GPU memory, and the optimizer is on the CPU: pass a communicator whose "
          "device_type is SHAMPOO_CPU");
    }
    SHAMPOO_RETURN_IF_ERROR(comm->PriorFailure());
  }
  return {};
}

// Creates a DeviceEngine (core/backend/cuda/device_engine.h) without blocks. A rank that could not create its optimizer
// uses device memory of this engine to report the error over a communicator that takes only device memory.
Status CreatePlaceholderEngine(const OptimizerDesc& desc, std::unique_ptr<cuda::DeviceEngine>* out) {
  auto plan = std::make_shared<PlanData>();
  plan->placement.device = desc.device;
  plan->groups.emplace_back();
  plan->state_bytes_of_rank = {kArenaAlignment};
  return cuda::DeviceEngine::Create(std::move(plan), {desc.device_id, desc.allocator, desc.stream, nullptr, false},
                                    out);
}

// Returns the log message for a plan with several shard ranks. It has three numbers of parameters: those that are
// preconditioned whole, those of which this rank preconditions only its shard, and those without elements on this rank.
std::string TextOfForms(const PlanData& plan) {
  int whole = 0;
  int pieces = 0;
  int skipped = 0;
  for (const Param& param : plan.params) {
    if (param.block_count == 0) {
      ++skipped;
    } else {
      ++(plan.block(param.first_block).piece_of_shard ? pieces : whole);
    }
  }
  return Cat("shards: shard_mode=", plan.gathers ? "gather" : "local", ", ", plan.placement.shard_world,
             " shard ranks; number of parameters that are preconditioned whole: ", whole, ", as shards: ", pieces,
             ", without elements on this rank: ", skipped);
}

void LogPlan(const PlanData& plan) {
  LogText(LogLevel::kInfo, [&plan] {
    return Cat("optimizer: ", CountText(static_cast<int64_t>(plan.params.size()), "parameter"), " in ",
               CountText(static_cast<int64_t>(plan.groups.size()), "group"), ", ",
               CountText(static_cast<int64_t>(plan.blocks.size()), "block"),
               plan.ranks() == 1 ? ", " : " on all ranks together; on this rank: ", plan.state_bytes(),
               " bytes of state, ", plan.workspace_bytes_of_rank[static_cast<size_t>(plan.rank())],
               " bytes of workspace, ", CountText(plan.threads, "thread"));
  });
  if (plan.placement.shard_world > 1) LogText(LogLevel::kInfo, [&plan] { return TextOfForms(plan); });
  LogText(LogLevel::kWarning, [&plan] { return RankDeficientFactorsText(plan); });
}

Status CheckCommunicators(const PlanData& plan, const OptimizerDesc& desc) {
  const Placement& placement = plan.placement;
  if (plan.gathers && desc.shard_comm == nullptr) {
    return Invalid("desc.shard_comm is NULL with shard_mode=gather, and the plan's shard_world is ",
                   placement.shard_world, ": pass a communicator of the shard ranks, or set shard_mode=local");
  }
  if (desc.replica_comm == nullptr && placement.replica_world != 1) {
    return Invalid("desc.replica_comm is NULL and the plan's replica_world is ", placement.replica_world,
                   ": pass a communicator with that many ranks, or make a plan with a replica_world of 1");
  }
  const auto check = [](const char* kind, const Communicator* comm, int rank, int world) -> Status {
    if (comm == nullptr) return {};
    if (comm->world() != world || comm->rank() != rank) {
      return Invalid("desc.", kind, "_comm has rank ", comm->rank(), " and world ", comm->world(),
                     ", but the plan has ", kind, "_rank ", rank, " and ", kind, "_world ", world,
                     ": expected the same rank and the same world");
    }
    return {};
  };
  SHAMPOO_RETURN_IF_ERROR(check("replica", desc.replica_comm.get(), placement.replica_rank, placement.replica_world));
  return check("shard", desc.shard_comm.get(), placement.shard_rank, placement.shard_world);
}

Status CheckCallerState(const PlanData& plan, const OptimizerDesc& desc) {
  if (desc.state == nullptr) return {};
  const int64_t needed = plan.state_bytes();
  if (desc.state_bytes < static_cast<size_t>(needed)) {
    return Invalid("desc.state_bytes is ", desc.state_bytes, ": expected at least ", needed,
                   ", which shampoo_plan_bytes reports as \"state\"");
  }
  if (reinterpret_cast<uintptr_t>(desc.state) % kStateAlignment == 0) return {};
  return Invalid("desc.state is not aligned: expected an address that is a multiple of ", kStateAlignment);
}

}  // namespace

Optimizer::Optimizer(std::shared_ptr<const PlanData> plan)
    : plan_(std::move(plan)), buffers_(*plan_), history_(*plan_) {}

Status Optimizer::Create(std::shared_ptr<const PlanData> plan, const OptimizerDesc& desc, Status caller_status,
                         std::unique_ptr<Optimizer>* out) {
  SHAMPOO_RETURN_IF_ERROR(CheckUsable(desc));
  if (desc.shard_comm) desc.shard_comm->SetRankName("shard rank");
  // A rank takes its optimizer ids even if it fails below, so that the ids of later optimizers are the same on all
  // ranks.
  const Ids ids{desc.replica_comm ? desc.replica_comm->TakeOptimizerId() : 0,
                desc.shard_comm ? desc.shard_comm->TakeOptimizerId() : 0};
  // A rank that fails still joins the exchanges that follow, because otherwise the other ranks would wait for this
  // rank.
  Status status = std::move(caller_status);
  std::unique_ptr<Optimizer> optimizer;
  std::vector<std::string> shard_lines;
  std::vector<std::string> replica_lines;
  if (status.ok()) {
    status = CatchExceptions([&]() -> Status {
      SHAMPOO_RETURN_IF_ERROR(CheckCommunicators(*plan, desc));
      if (desc.shard_comm) shard_lines = PlanLines(*plan, false);
      if (plan->gathers) {
        shard_lines.push_back(desc.shard_comm->has_all_to_all() ? "a communicator with all_to_all"
                                                                : "a communicator without all_to_all");
      }
      if (desc.replica_comm) replica_lines = PlanLines(*plan, true);
      std::unique_ptr<Optimizer> made(new Optimizer(plan));
      SHAMPOO_RETURN_IF_ERROR(made->Build(desc, ids));
      optimizer = std::move(made);
      return {};
    });
  }
  std::unique_ptr<cuda::DeviceEngine> placeholder;
  std::unique_ptr<Staging> staging;
  const std::array<Communicator*, 2> comms = {desc.shard_comm.get(), desc.replica_comm.get()};
  const auto abort_all = [&comms](const Status& error) {
    for (Communicator* const comm : comms) {
      if (comm != nullptr) comm->Abort(error);
    }
  };
  std::array<std::optional<StagingScope>, 2> staged;
  const auto takes_device_memory = [](const Communicator* comm) {
    return comm != nullptr && comm->takes_device_memory();
  };
  if (std::any_of(comms.begin(), comms.end(), takes_device_memory)) {
    const Status made = CatchExceptions([&]() -> Status {
      if (optimizer != nullptr) {
        staging = optimizer->state().memory().MakeStaging(desc.stream);
        return {};
      }
      SHAMPOO_RETURN_IF_ERROR(CreatePlaceholderEngine(desc, &placeholder));
      staging = std::make_unique<cuda::DeviceStaging>(placeholder.get(), desc.stream);
      return {};
    });
    if (!made.ok()) {
      if (status.ok()) status = made.Copy();
      abort_all(status);
      return status;
    }
    for (size_t i = 0; i < comms.size(); ++i) {
      if (comms[i] != nullptr) staged[i].emplace(comms[i], staging.get());
    }
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
  // The replica ranks that hold the same shard have agreed on a status. If it is an error, it must also stop the ranks
  // that hold other shards.
  if (desc.shard_comm && desc.replica_comm && !desc.shard_comm->failed()) {
    const bool replicas_agreed = status.ok();
    // From the code kComm, the ranks that hold other shards learn that a communicator has failed.
    if (desc.replica_comm->failed()) status = Status(Code::kComm, status.message());
    status = AgreeOnStatus(desc.shard_comm.get(), status);
    // The other replica ranks may have created their optimizers, and would wait for this rank in a step.
    if (replicas_agreed && (desc.shard_comm->failed() || status.code() == Code::kComm)) abort_all(status);
  }
  SHAMPOO_RETURN_IF_ERROR(std::move(status));
  Status initialized = optimizer->state().Initialize();
  if (!initialized.ok()) {
    // The other ranks have created their optimizers and would wait for this rank in a step.
    abort_all(initialized);
    return initialized;
  }
  LogPlan(*plan);
  *out = std::move(optimizer);
  return {};
}

// Creates the state and the step strategy of this rank. Exchanges nothing with other ranks.
Status Optimizer::Build(const OptimizerDesc& desc, const Ids& ids) {
  if (desc.device != plan_->placement.device) {
    const auto name = [](DeviceType type) { return type == DeviceType::kCpu ? "SHAMPOO_CPU (1)" : "SHAMPOO_CUDA (2)"; };
    return Invalid("desc.device_type is ", name(desc.device), ", and the device type of the plan is ",
                   name(plan_->placement.device),
                   ": expected the device type of the plan, because the plan's byte counts are for that device");
  }
  replica_comm_ = desc.replica_comm;
  SHAMPOO_RETURN_IF_ERROR(CheckCallerState(*plan_, desc));
  SHAMPOO_RETURN_IF_ERROR(desc.device == DeviceType::kCpu ? BuildOnHost(desc, ids) : BuildOnDevice(desc, ids));
  state_->Observe(strategy_.get());
  return {};
}

Status Optimizer::BuildOnHost(const OptimizerDesc& desc, const Ids& ids) {
  std::unique_ptr<CpuBackend> made;
  SHAMPOO_RETURN_IF_ERROR(CpuBackend::Create(*plan_, desc.executor, desc.allocator, &made));
  const std::shared_ptr<CpuBackend> backend = std::move(made);
  std::unique_ptr<StateMemory> memory;
  SHAMPOO_RETURN_IF_ERROR(HostMemory::Create(*plan_, desc.allocator, desc.state, backend, &memory));
  state_ = std::make_unique<OptimizerState>(*plan_, std::move(memory), 1);
  const StepInputs inputs{*plan_, *state_, buffers_, history_};

  std::unique_ptr<ReplicaExchange> replicas;
  if (plan_->placement.replica_world > 1) {
    SHAMPOO_RETURN_IF_ERROR(
        ReplicaExchange::Create(inputs, desc.replica_comm, ids.of_replicas, desc.allocator, backend.get(), &replicas));
  }
  if (plan_->gathers) {
    std::unique_ptr<BlockGather> gather;
    SHAMPOO_RETURN_IF_ERROR(
        BlockGather::Create(*plan_, desc.shard_comm, ids.of_shards, desc.allocator, backend.get(), &gather));
    std::unique_ptr<ReplicaSharing> sharing = std::move(replicas);
    if (sharing == nullptr) sharing = std::make_unique<SingleReplica>(gather->arrived());
    strategy_ = std::make_unique<GatheredStep>(
        inputs, backend, std::make_unique<ShardRounds>(inputs, desc.shard_comm, ids.of_shards, BoundScalars::kOnHost),
        std::move(gather), std::move(sharing));
    return {};
  }
  std::unique_ptr<ShardAgreement> shards = std::make_unique<NoShards>();
  if (desc.shard_comm) {
    shards = std::make_unique<ShardRounds>(inputs, desc.shard_comm, ids.of_shards, BoundScalars::kOnHost);
  }
  if (replicas != nullptr) {
    strategy_ = std::make_unique<ReplicatedStep>(inputs, backend, std::move(shards), std::move(replicas));
  } else {
    strategy_ = std::make_unique<LocalStep>(inputs, backend, std::move(shards));
  }
  return {};
}

Status Optimizer::BuildOnDevice(const OptimizerDesc& desc, const Ids& ids) {
  std::unique_ptr<cuda::DeviceEngine> made;
  const bool shards_agree = desc.shard_comm != nullptr && plan_->placement.shard_world > 1;
  const bool has_all_to_all = shards_agree && desc.shard_comm->has_all_to_all();
  const bool shards_through_host = shards_agree && !desc.shard_comm->takes_device_memory();
  const bool replicas_through_host = plan_->placement.replica_world > 1 && !desc.replica_comm->takes_device_memory();
  SHAMPOO_RETURN_IF_ERROR(
      cuda::DeviceEngine::Create(plan_,
                                 {desc.device_id, desc.allocator, desc.stream, desc.state, shards_agree, has_all_to_all,
                                  shards_through_host, replicas_through_host},
                                 &made));
  const std::shared_ptr<const cuda::DeviceEngine> engine = std::move(made);
  auto memory = std::make_unique<cuda::DeviceStateMemory>(*plan_, engine, desc.state, desc.stream);
  cuda::DeviceStateMemory* const device_memory = memory.get();
  // Scalars that the caller binds must be aligned, because the device reads them without a copy.
  state_ = std::make_unique<OptimizerState>(*plan_, std::move(memory), sizeof(double));
  const StepInputs inputs{*plan_, *state_, buffers_, history_};

  std::vector<std::unique_ptr<DeviceRanks>> ranks;
  if (shards_agree) {
    ranks.push_back(std::make_unique<DeviceShards>(inputs, desc.shard_comm, ids.of_shards, engine.get()));
  }
  if (plan_->placement.replica_world > 1) {
    ranks.push_back(std::make_unique<DeviceReplicas>(inputs, desc.replica_comm, ids.of_replicas, engine.get()));
  }
  std::unique_ptr<DevicePeers> peers = std::make_unique<SingleDevice>();
  if (!ranks.empty()) {
    SHAMPOO_RETURN_IF_ERROR(SeveralDevices::Create(std::move(ranks), *engine, device_memory, &peers));
  }
  std::unique_ptr<AsyncRootSource> async_roots = std::make_unique<DeviceAsyncRoots>(engine);
  if (plan_->groups[0].root_device == RootDevice::kHost) {
    std::unique_ptr<HostRoots> host_roots;
    SHAMPOO_RETURN_IF_ERROR(HostRoots::Create(*plan_, engine, &host_roots));
    if (host_roots != nullptr) async_roots = std::move(host_roots);
  }
  strategy_ = std::make_unique<DeviceStep>(inputs, engine, device_memory, std::move(peers), std::move(async_roots));
  return {};
}

}  // namespace shampoo
