// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/gathered_step.h"

#include <utility>

#include "core/base/catch_exceptions.h"

namespace shampoo {
namespace {

std::vector<BlockTarget> TargetsInWholeBlocks(const StepInputs& inputs, const BlockGather& gather) {
  std::vector<BlockTarget> targets;
  for (size_t i = 0; i < inputs.plan.blocks.size(); ++i) {
    const Buffers& buffers = gather.BuffersOf(i);
    targets.push_back({&buffers, static_cast<char*>(buffers.out)});
  }
  return targets;
}

}  // namespace

// The last argument of HostStep (defers_state_errors) is true, because only the owner of a block can detect that a
// state of the block would overflow. The owner then skips the update of the block instead of rejecting the step.
GatheredStep::GatheredStep(const StepInputs& inputs, std::shared_ptr<CpuBackend> backend,
                           std::unique_ptr<ShardRounds> shards, std::unique_ptr<BlockGather> gather,
                           std::unique_ptr<ReplicaSharing> replicas)
    : HostStep(inputs, std::move(backend), TargetsInWholeBlocks(inputs, *gather), true),
      shards_(std::move(shards)),
      gather_(std::move(gather)),
      replicas_(std::move(replicas)) {
  size_t slices = 0;
  for (size_t i = 0; i < gather_->pass_count(); ++i) slices += gather_->PassAt(i).held.size();
  slice_items_.reserve(slices);
  none_.resize(inputs.plan.params.size());
  pass_items_.reserve(inputs.plan.blocks.size());
}

Status GatheredStep::Step(Status caller_status, void* /*stream*/) {
  SHAMPOO_RETURN_IF_ERROR(ReportPriorFailure(shards_.get(), replicas_.get()));
  StepDecision decision{.status = std::move(caller_status)};
  CheckShards(&decision);
  shards_->AgreeOnCode(&decision, &context_);
  if (decision.status.ok()) {
    TakeAgreedGradients();
    decision.status = context_.List();
  }
  if (decision.status.ok() && decision.needs_exact_check) CheckWholeBlocks(&decision);
  if (!decision.makes_step()) return EndWithoutStep(std::move(decision));
  context_.BeginWithExcluded();
  for (int64_t bucket = 0; bucket < bucket_count(); ++bucket) {
    SHAMPOO_RETURN_IF_ERROR(StepBucket(bucket, decision));
  }
  context_.Finish(false);
  replicas_->DeferRootFailures();
  return {};
}

// Makes the checks that need only the shards of this rank. The owner of a block checks later, in CheckOwnedStates(),
// whether a state of the block would overflow, because that check needs the whole block and its states.
void GatheredStep::CheckShards(StepDecision* decision) {
  decision->status = CatchExceptions([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(CheckBeforeListing(std::move(decision->status), &decision->is_forwarded));
    // A parameter that has no elements on this rank may have a gradient on other ranks.
    for (size_t p = 0; p < inputs_.plan.params.size(); ++p) {
      const Param& param = inputs_.plan.params[p];
      const bool may_have_gradient = param.elements == 0 || inputs_.buffers.HasGradient(param);
      context_.participants().flags()[p] = static_cast<char>(param.block_count > 0 && may_have_gradient);
    }
    SHAMPOO_RETURN_IF_ERROR(context_.List());
    SHAMPOO_RETURN_IF_ERROR(checker_.CheckFactors(context_.items()));
    decision->needs_exact_check = checker_.MayReject(&context_);
    return {};
  });
}

void GatheredStep::TakeAgreedGradients() {
  for (size_t p = 0; p < inputs_.plan.params.size(); ++p) {
    const Param& param = inputs_.plan.params[p];
    context_.participants().flags()[p] = static_cast<char>(shards_->HasGradient(p));
    // The owner of a block needs to know whether the step writes a copy of the parameter, even if the owner holds no
    // element of the parameter.
    for (int64_t i = param.first_block; i < param.first_block + param.block_count; ++i) {
      gather_->SetCopied(static_cast<size_t>(i), shards_->HasCopy(p));
    }
  }
}

// The ranks of every replica check all blocks, including those that other replicas own, so that all replicas make the
// same decision.
void GatheredStep::CheckWholeBlocks(StepDecision* decision) {
  const size_t passes = gather_->pass_count();
  CheckResult result;
  Status checked;
  for (size_t i = 0; i < passes; ++i) {
    // Begin with the first pass of a step, because a rank on which the agreement failed reports the failure in the
    // collect round of that pass.
    const size_t pass = (OwnPass(0) + i) % passes;
    Status failure = gather_->Collect(pass, inputs_.buffers.all(), context_.participants().flags());
    if (!failure.ok()) {
      if (i + 1 < passes) {
        gather_->ReportInCollect((pass + 1) % passes, failure);
      } else {
        shards_->Report(failure);
      }
      decision->status = std::move(failure);
      return;
    }
    if (checked.ok()) checked = CatchExceptions([&] { return CheckPass(pass, &result); });
  }
  StepDecision agreed{.status = std::move(checked), .skip_step = result.skip_step};
  shards_->AgreeOnCode(&agreed, nullptr);
  decision->status = std::move(agreed.status);
  decision->skip_step = decision->skip_step || agreed.skip_step;
  if (decision->status.ok()) result.LogMessages();
}

Status GatheredStep::CheckPass(size_t pass, CheckResult* result) {
  ListPass(pass);
  for (size_t k = 0; k < pass_items_.size(); ++k) {
    SHAMPOO_RETURN_IF_ERROR(checker_.CheckGradient(k, pass_items_[k], &context_, result));
  }
  return {};
}

// Lists the blocks that this rank collected in a pass, except blocks without a gradient and blocks whose updates are
// skipped. Scans the gradients of the listed blocks.
void GatheredStep::ListPass(size_t pass) {
  pass_items_.clear();
  for (const WholeBlock& whole : gather_->PassAt(pass).whole) {
    const Block& block = inputs_.plan.block(whole.block);
    if (!context_.participants().Contains(inputs_.plan.param(block))) continue;
    StepItem& item = context_.ItemOf(whole.block);
    if (!item.skip_update) pass_items_.push_back(&item);
  }
  checker_.Scan(pass_items_);
}

// Ends a step that was rejected or skipped before anything was written. A rank on which the agreement failed does not
// know the decision, and reports its failure in the first collect. The other ranks therefore join that collect:
//
//   rank A (step rejected)      rank B
//   agreement ----------------- agreement    fails on B alone
//   JoinCollect() ------------- ReportInCollect()
//   messages ------------------ messages     both return B's error
Status GatheredStep::EndWithoutStep(StepDecision decision) {
  SHAMPOO_RETURN_IF_ERROR(JoinRejected(std::move(decision)));
  context_.FinishSkipped();
  return {};
}

Status GatheredStep::JoinRejected(StepDecision decision) {
  if (shards_->comm()->failed()) {
    gather_->ReportInCollect(OwnPass(0), decision.status);
  } else {
    Status failure = gather_->JoinCollect(OwnPass(0));
    // All ranks fetch the error message of a rejected step, even a rank whose collect failed.
    if (shards_->text_is_due()) {
      Status rejection = CatchExceptions([&] { return shards_->FetchText(); });
      if (failure.ok()) failure = std::move(rejection);
    }
    if (!failure.ok()) decision.status = std::move(failure);
  }
  return replicas_->Share(0, decision, context_, shards_.get());
}

// An export makes the rounds of a step, so that failures are reported in the same way. The collect rounds transfer no
// gradients or parameters, because the owner of a block needs only the state of the block.
Status GatheredStep::Export(Status caller_status, double blend, std::span<void* const> weights) {
  SHAMPOO_RETURN_IF_ERROR(ReportPriorFailure(shards_.get(), replicas_.get()));
  StepDecision decision{.status = std::move(caller_status), .exports = true};
  if (decision.status.ok()) decision.status = CatchExceptions([&] { return export_.Check(weights); });
  context_.participants().ChooseAll();
  context_.ClearExcluded();
  shards_->BeginExport();
  shards_->AgreeOnCode(&decision, nullptr);
  if (!decision.status.ok()) return JoinRejected(std::move(decision));
  export_.Begin(blend, weights);
  for (int64_t bucket = 0; bucket < bucket_count(); ++bucket) {
    SHAMPOO_RETURN_IF_ERROR(ExportBucket(bucket, decision));
  }
  export_.Finish();
  return {};
}

Status GatheredStep::ExportBucket(int64_t bucket, const StepDecision& decision) {
  const size_t pass = OwnPass(bucket);
  Status status = gather_->Collect(pass, inputs_.buffers.all(), none_);
  if (!status.ok()) return Fail(std::move(status), bucket, Phase::kCollect);
  export_.Compute(bucket);
  status =
      gather_->Deliver(pass, context_.participants().flags(), export_.update_skipped(), ArrivedFromOwnReplica(bucket));
  if (!status.ok()) return Fail(std::move(status), bucket, Phase::kDeliver);
  status = replicas_->Share(bucket, decision, context_, shards_.get());
  if (!status.ok()) return Fail(std::move(status), bucket, Phase::kShare);
  ApplyDelivered(bucket, [this](const Block& block, int64_t index, SliceItem* applied) {
    if (!export_.IsWanted(block)) return false;
    applied->item = export_.ItemOf(index);
    return true;
  });
  return {};
}

Status GatheredStep::StepBucket(int64_t bucket, const StepDecision& decision) {
  const size_t pass = OwnPass(bucket);
  Status status = gather_->Collect(pass, inputs_.buffers.all(), context_.participants().flags());
  if (!status.ok()) return Fail(std::move(status), bucket, Phase::kCollect);
  CheckOwnedStates(pass);
  context_.Compute(context_.ItemsOfBucket(bucket, true));
  if (bucket + 1 == bucket_count()) context_.RecordRoots();
  status =
      gather_->Deliver(pass, context_.participants().flags(), context_.update_skipped(), ArrivedFromOwnReplica(bucket));
  if (!status.ok()) return Fail(std::move(status), bucket, Phase::kDeliver);
  status = replicas_->Share(bucket, decision, context_, shards_.get());
  if (!status.ok()) return Fail(std::move(status), bucket, Phase::kShare);
  ApplyDelivered(bucket, [this](const Block& block, int64_t index, SliceItem* applied) {
    const auto param = static_cast<size_t>(block.param);
    if (!context_.participants().Contains(inputs_.plan.params[param])) return false;
    applied->item = context_.ItemOf(index);
    applied->item.buffers = &inputs_.buffers.all()[param];
    return true;
  });
  return {};
}

// If a state of a block would overflow, skips the update of the block. The ranks that hold elements of the block find
// the mark of a skipped update in the data that they receive.
void GatheredStep::CheckOwnedStates(size_t pass) {
  ListPass(pass);
  for (size_t k = 0; k < pass_items_.size(); ++k) {
    if (!checker_.FitsState(k, *pass_items_[k])) pass_items_[k]->skip_update = true;
  }
}

// Failure sequences: docs/adr/0022-one-round-protocol.md. Over a communicator that has failed, at most the first call
// of a Report...() function has an effect. If this step has no round in which to report the failure, the next step
// begins with the report (ReportPriorFailure).
Status GatheredStep::Fail(Status failure, int64_t bucket, Phase phase) {
  if (phase == Phase::kCollect) gather_->ReportInDeliver(OwnPass(bucket), failure, ArrivedFromOwnReplica(bucket));
  if (phase != Phase::kShare) replicas_->ReportWithShards(bucket, failure, shards_.get());
  // With several replicas, Share() of the first bucket ends with an agreement of the shard ranks. Unless this agreement
  // failed, all shard ranks know that sharing the bucket has failed.
  const bool shards_know = phase == Phase::kShare && bucket == 0 && !shards_->comm()->failed();
  if (!shards_know && bucket + 1 < bucket_count()) gather_->ReportInCollect(OwnPass(bucket + 1), failure);
  return failure;
}

// Applies the received updates of a bucket. take(block, index of the block, slice) sets the item of the slice and
// returns true, or returns false if the slice must not be applied.
template <typename Take>
void GatheredStep::ApplyDelivered(int64_t bucket, Take&& take) {
  slice_items_.clear();
  for (int replica = 0; replica < inputs_.plan.placement.replica_world; ++replica) {
    const GatherPass& pass = gather_->PassAt(gather_->PassIndex(bucket, replica));
    char* const arrived = replicas_->ArrivedFrom(bucket, replica);
    for (const ShardSlice& slice : pass.held) {
      const Block& block = inputs_.plan.block(slice.block);
      SliceItem applied{{}, {&block, &slice.region, slice.elements}};
      if (!take(block, slice.block, &applied)) continue;
      applied.item.exchange = arrived + slice.update_at;
      slice_items_.push_back(applied);
    }
  }
  backend_->ApplySlices(slice_items_);
}

}  // namespace shampoo
