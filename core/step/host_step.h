// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "core/backend/cpu/cpu_backend.h"
#include "core/step/gradient_checker.h"
#include "core/step/replica_exchange.h"
#include "core/step/shard_agreement.h"
#include "core/step/step_context.h"
#include "core/step/step_strategy.h"
#include "core/step/weight_export.h"

namespace shampoo {

// The base class of all steps on the CPU. Before a rank writes anything, it makes all of its own checks that can reject
// the step.
class HostStep : public StepStrategy {
 public:
  Status ReportSteps(bool wait, int64_t* failed_call) final;
  double Seconds(StepPhase phase) const final { return backend_->Seconds(phase); }

  // A step on the CPU is complete when its call returns. Nothing about the state is cached between steps.
  Status FinishSteps() final { return {}; }
  void OnInitialize() final {}
  void OnWrite(bool /*step_counters*/) final {}
  void OnUnseenWrite() final {}
  void OnBindBuffers() final {}
  void OnChangeRootSettings() final {}
  void OnReplace() final { inputs_.history.DiscardErrors(); }

 protected:
  // targets: by block. defers_state_errors: see GradientChecker.
  HostStep(const StepInputs& inputs, std::shared_ptr<CpuBackend> backend, const std::vector<BlockTarget>& targets,
           bool defers_state_errors);

  // Returns an error that an earlier step deferred. If there is none, checks the caller's arguments, the state, the
  // buffers and the bound scalars. Deferred errors come first, because all ranks must return them from the same call,
  // even if a rank also has an error of its own. *is_forwarded: as in StepDecision.
  Status CheckBeforeListing(Status caller_status, bool* is_forwarded) const;
  // Makes the checks of a step whose blocks are whole on this rank, and sets *decision. The caller logs the messages of
  // the result after all checks and agreements of the step have succeeded.
  CheckResult CheckOwnGradients(StepDecision* decision);

  StepInputs inputs_;
  std::shared_ptr<CpuBackend> backend_;
  StepContext context_;
  GradientChecker checker_;
  WeightExport export_;
};

// Returns an error if a collective failed in an earlier call, and reports the failure to ranks that may not know of it.
// Every step on the CPU begins with this call.
Status ReportPriorFailure(ShardAgreement* shards, ReplicaSharing* replicas);

// Returns, by block, targets for steps that read and write the caller's buffers.
std::vector<BlockTarget> TargetsInBuffers(const StepInputs& inputs);

// The step of an optimizer with one replica, unless blocks are gathered from shards (see GatheredStep). This rank owns
// all blocks of its parameters or of its local shards.
class LocalStep final : public HostStep {
 public:
  LocalStep(const StepInputs& inputs, std::shared_ptr<CpuBackend> backend, std::unique_ptr<ShardAgreement> shards);
  Status Step(Status caller_status, void* stream) override;
  Status Export(Status caller_status, double blend, std::span<void* const> weights) override;

 private:
  std::unique_ptr<ShardAgreement> shards_;
  SingleReplica replicas_{nullptr};
};

// The step of an optimizer with several replicas, unless blocks are gathered from shards. The blocks are distributed
// among the replicas. Each rank computes the updates of its own blocks, the replicas exchange the updates bucket by
// bucket, and every rank applies all of them.
class ReplicatedStep final : public HostStep {
 public:
  ReplicatedStep(const StepInputs& inputs, std::shared_ptr<CpuBackend> backend, std::unique_ptr<ShardAgreement> shards,
                 std::unique_ptr<ReplicaExchange> replicas);
  Status Step(Status caller_status, void* stream) override;
  Status Export(Status caller_status, double blend, std::span<void* const> weights) override;

 private:
  std::unique_ptr<ShardAgreement> shards_;
  std::unique_ptr<ReplicaExchange> replicas_;
};

}  // namespace shampoo
