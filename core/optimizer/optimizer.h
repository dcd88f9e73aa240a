// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "core/base/device_type.h"
#include "core/base/executor.h"
#include "core/base/memory.h"
#include "core/comm/communicator.h"
#include "core/plan/plan.h"
#include "core/state/optimizer_state.h"
#include "core/step/bound_buffers.h"
#include "core/step/step_history.h"
#include "core/step/step_strategy.h"

namespace shampoo {

// How to create an optimizer (shampoo_optimizer_desc in the public header).
struct OptimizerDesc {
  DeviceType device = DeviceType::kCpu;
  int device_id = 0;
  void* stream = nullptr;
  HostAllocator allocator;
  HostExecutor executor;
  void* state = nullptr;                       // the caller's arena; nullptr: the optimizer allocates one
  size_t state_bytes = 0;                      // size of the caller's arena
  std::shared_ptr<Communicator> replica_comm;  // nullptr: one replica
  std::shared_ptr<Communicator> shard_comm;    // nullptr: one shard rank
};

// The optimizer of one rank: its state, the caller's buffers, and the strategy of its steps.
class Optimizer {
 public:
  // Creates the optimizer of this rank. Collective over the communicators of `desc`.
  // caller_status: success, or an error in the arguments of this rank's caller. Create() reports such an error to the
  // other ranks. If caller_status is an error, `plan` may be nullptr.
  static Status Create(std::shared_ptr<const PlanData> plan, const OptimizerDesc& desc, Status caller_status,
                       std::unique_ptr<Optimizer>* out);
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  OptimizerState& state() { return *state_; }
  const OptimizerState& state() const { return *state_; }

  const BoundBuffers& buffers() const { return buffers_; }
  // Binds buffers like BoundBuffers::Bind(), and notifies the strategy.
  Status Bind(int first, std::span<const Buffers> buffers);

  Status Set(int group, const char* name, double value);

  // Writes (1 - blend) times each parameter plus blend times its average. weights: for each parameter, the memory to
  // write to, or nullptr to skip the parameter.
  Status Export(Status caller_status, double blend, std::span<void* const> weights);

  // Returns the object that makes the steps with the buffers and hyper-parameters of this optimizer.
  StepStrategy& strategy() { return *strategy_; }

  Status Stat(std::string_view name, double* value) const;

 private:
  // The number of this optimizer on each communicator (Communicator::TakeOptimizerId). It is the same on all ranks.
  struct Ids {
    int32_t of_replicas = 0;
    int32_t of_shards = 0;
  };

  explicit Optimizer(std::shared_ptr<const PlanData> plan);
  Status Build(const OptimizerDesc& desc, const Ids& ids);
  Status BuildOnHost(const OptimizerDesc& desc, const Ids& ids);
  Status BuildOnDevice(const OptimizerDesc& desc, const Ids& ids);
  Status StatOfGroup(std::string_view number, double* value) const;
  Status CheckExportArguments(double blend, size_t count) const;

  std::shared_ptr<const PlanData> plan_;
  std::shared_ptr<Communicator> replica_comm_;  // with one replica, only this pointer keeps the communicator alive
  BoundBuffers buffers_;
  StepHistory history_;
  std::unique_ptr<OptimizerState> state_;
  std::unique_ptr<StepStrategy> strategy_;
};

}  // namespace shampoo
