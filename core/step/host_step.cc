// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/host_step.h"

#include <utility>

#include "core/base/catch_exceptions.h"

namespace shampoo {
namespace {

std::vector<BlockTarget> TargetsInExchange(const StepInputs& inputs, const ReplicaExchange& replicas) {
  std::vector<BlockTarget> targets = TargetsInBuffers(inputs);
  for (size_t i = 0; i < targets.size(); ++i) targets[i].exchange = replicas.UpdateOf(inputs.plan.blocks[i]);
  return targets;
}

}  // namespace

std::vector<BlockTarget> TargetsInBuffers(const StepInputs& inputs) {
  std::vector<BlockTarget> targets;
  for (const Block& block : inputs.plan.blocks) {
    targets.push_back({&inputs.buffers.all()[static_cast<size_t>(block.param)], nullptr});
  }
  return targets;
}

Status ReportPriorFailure(ShardAgreement* shards, ReplicaSharing* replicas) {
  Status failure = replicas->PriorFailure();
  if (failure.ok()) failure = shards->PriorFailure();
  if (failure.ok()) return {};
  shards->Report(failure);
  replicas->Report(0, failure);
  return failure;
}

HostStep::HostStep(const StepInputs& inputs, std::shared_ptr<CpuBackend> backend,
                   const std::vector<BlockTarget>& targets, bool defers_state_errors)
    : inputs_(inputs),
      backend_(std::move(backend)),
      context_(inputs, backend_.get(), targets),
      checker_(inputs, backend_.get(), defers_state_errors),
      export_(inputs, backend_.get(), targets) {}

Status HostStep::ReportSteps(bool /*wait*/, int64_t* failed_call) {
  *failed_call = 0;
  return {};
}

Status HostStep::CheckBeforeListing(Status caller_status, bool* is_forwarded) const {
  SHAMPOO_RETURN_IF_ERROR(inputs_.history.RaiseSkippedUpdate(inputs_.state.hyper_parameters()));
  SHAMPOO_RETURN_IF_ERROR(inputs_.history.RaiseRootFailure(is_forwarded));
  SHAMPOO_RETURN_IF_ERROR(std::move(caller_status));
  SHAMPOO_RETURN_IF_ERROR(inputs_.state.CheckUsable(inputs_.state.in()));
  SHAMPOO_RETURN_IF_ERROR(inputs_.buffers.CheckAllBound());
  return inputs_.state.hyper_parameters().CheckBoundScalars();
}

CheckResult HostStep::CheckOwnGradients(StepDecision* decision) {
  CheckResult result;
  decision->status = CatchExceptions([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(CheckBeforeListing(std::move(decision->status), &decision->is_forwarded));
    context_.participants().ChooseOwnGradients(inputs_.buffers);
    SHAMPOO_RETURN_IF_ERROR(context_.List());
    SHAMPOO_RETURN_IF_ERROR(checker_.CheckFactors(context_.items()));
    return checker_.CheckGradients(&context_, &result);
  });
  decision->skip_step = result.skip_step;
  return result;
}

LocalStep::LocalStep(const StepInputs& inputs, std::shared_ptr<CpuBackend> backend,
                     std::unique_ptr<ShardAgreement> shards)
    : HostStep(inputs, std::move(backend), TargetsInBuffers(inputs), false), shards_(std::move(shards)) {}

Status LocalStep::Step(Status caller_status, void* /*stream*/) {
  SHAMPOO_RETURN_IF_ERROR(ReportPriorFailure(shards_.get(), &replicas_));
  StepDecision decision{.status = std::move(caller_status)};
  CheckResult checked = CheckOwnGradients(&decision);
  shards_->Agree(&decision, &context_);
  SHAMPOO_RETURN_IF_ERROR(std::move(decision.status));
  checked.LogMessages();
  if (decision.skip_step) {
    context_.FinishSkipped();
    return {};
  }
  context_.Begin();
  context_.Compute(context_.items());
  context_.Finish(true);
  context_.RecordRoots();
  return {};
}

// This export needs no exchange, because every rank has the averages of the elements that it holds.
Status LocalStep::Export(Status caller_status, double blend, std::span<void* const> weights) {
  SHAMPOO_RETURN_IF_ERROR(std::move(caller_status));
  SHAMPOO_RETURN_IF_ERROR(export_.Check(weights));
  export_.Begin(blend, weights);
  export_.Compute(0);  // without other replicas there is one bucket
  export_.Finish();
  return {};
}

ReplicatedStep::ReplicatedStep(const StepInputs& inputs, std::shared_ptr<CpuBackend> backend,
                               std::unique_ptr<ShardAgreement> shards, std::unique_ptr<ReplicaExchange> replicas)
    : HostStep(inputs, std::move(backend), TargetsInExchange(inputs, *replicas), true),
      shards_(std::move(shards)),
      replicas_(std::move(replicas)) {}

Status ReplicatedStep::Step(Status caller_status, void* /*stream*/) {
  SHAMPOO_RETURN_IF_ERROR(ReportPriorFailure(shards_.get(), replicas_.get()));
  StepDecision decision{.status = std::move(caller_status)};
  CheckResult checked = CheckOwnGradients(&decision);
  shards_->Agree(&decision, &context_);
  // A rank that makes no step still joins the first exchange, so that the other ranks see its decision.
  if (!decision.makes_step()) {
    SHAMPOO_RETURN_IF_ERROR(replicas_->Share(0, decision, context_, shards_.get()));
    checked.LogMessages();
    context_.FinishSkipped();
    return {};
  }
  context_.Begin();
  for (int64_t bucket = 0; bucket < replicas_->buckets(); ++bucket) {
    context_.Compute(context_.ItemsOfBucket(bucket, true));
    if (bucket + 1 == replicas_->buckets()) context_.RecordRoots();
    SHAMPOO_RETURN_IF_ERROR(replicas_->Share(bucket, decision, context_, shards_.get()));
    if (bucket == 0) checked.LogMessages();
    backend_->ApplyExchanged(context_.ItemsOfBucket(bucket, false));
  }
  context_.Finish(true);
  replicas_->DeferRootFailures();
  return {};
}

Status ReplicatedStep::Export(Status caller_status, double blend, std::span<void* const> weights) {
  SHAMPOO_RETURN_IF_ERROR(ReportPriorFailure(shards_.get(), replicas_.get()));
  StepDecision decision{.status = std::move(caller_status), .exports = true};
  if (decision.status.ok()) decision.status = CatchExceptions([&] { return export_.Check(weights); });
  context_.participants().ChooseAll();
  context_.ClearExcluded();
  shards_->AgreeOnExport(&decision);
  if (decision.status.ok()) export_.Begin(blend, weights);
  if (!decision.status.ok()) return replicas_->Share(0, decision, context_, shards_.get());
  for (int64_t bucket = 0; bucket < replicas_->buckets(); ++bucket) {
    export_.Compute(bucket);
    SHAMPOO_RETURN_IF_ERROR(replicas_->Share(bucket, decision, context_, shards_.get()));
    backend_->ApplyExchanged(export_.ItemsToApply(bucket));
  }
  export_.Finish();
  return {};
}

}  // namespace shampoo
