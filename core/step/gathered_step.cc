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

// Other ranks cannot see whether a block's state fits its gradient: its owner reports a skipped update.
GatheredStep::GatheredStep(const StepInputs& inputs, std::shared_ptr<CpuBackend> backend,
                           std::unique_ptr<ShardRounds> shards, std::unique_ptr<BlockGather> gather,
                           std::unique_ptr<ReplicaSharing> replicas)
    : HostStep(inputs, std::move(backend), TargetsInWholeBlocks(inputs, *gather), true),
      shards_(std::move(shards)),
      gather_(std::move(gather)),
      replicas_(std::move(replicas)) {
  size_t slices = 0;
  for (size_t i = 0; i < gather_->round_count(); ++i) slices += gather_->RoundAt(i).held.size();
  slice_items_.reserve(slices);
  round_items_.reserve(inputs.plan.blocks.size());
}

Status GatheredStep::Step(Status caller_status, void* /*stream*/) {
  SHAMPOO_RETURN_IF_ERROR(ReportPriorFailure(shards_.get(), replicas_.get()));
  StepVerdict verdict{.status = std::move(caller_status)};
  CheckShards(&verdict);
  shards_->AgreeOnCode(&verdict, &context_);
  if (verdict.status.ok()) {
    TakeAgreedGradients();
    verdict.status = context_.List();
  }
  if (verdict.status.ok() && verdict.needs_exact_check) CheckWholeBlocks(&verdict);
  if (!verdict.go()) return StepNothing(std::move(verdict));
  context_.BeginWithExcluded();
  for (int64_t bucket = 0; bucket < bucket_count(); ++bucket) {
    SHAMPOO_RETURN_IF_ERROR(StepBucket(bucket, verdict));
  }
  context_.Finish(false);
  replicas_->DeferOverdueRoots();
  return {};
}

// The checks that this rank can make of its own shards. What only an owner's state rejects is found when the blocks are
// whole.
void GatheredStep::CheckShards(StepVerdict* verdict) {
  verdict->status = CatchExceptions([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(CheckBeforeListing(std::move(verdict->status), &verdict->is_forwarded));
    // A parameter of which this rank holds nothing may have a gradient on others.
    for (size_t p = 0; p < inputs_.plan.params.size(); ++p) {
      const Param& param = inputs_.plan.params[p];
      const bool may_have_gradient = param.elements == 0 || inputs_.buffers.HasGradient(param);
      context_.takes_part()[p] = static_cast<char>(param.block_count > 0 && may_have_gradient);
    }
    SHAMPOO_RETURN_IF_ERROR(context_.List());
    SHAMPOO_RETURN_IF_ERROR(checker_.CheckFactors(context_.items()));
    verdict->needs_exact_check = checker_.MayReject(&context_);
    return {};
  });
}

void GatheredStep::TakeAgreedGradients() {
  for (size_t p = 0; p < inputs_.plan.params.size(); ++p) {
    const Param& param = inputs_.plan.params[p];
    context_.takes_part()[p] = static_cast<char>(shards_->HasGradient(p));
    // An owner may hold nothing of a parameter, and must know whether a copy of it is written.
    for (int64_t i = param.first_block; i < param.first_block + param.block_count; ++i) {
      gather_->SetCopied(static_cast<size_t>(i), shards_->HasCopy(p));
    }
  }
}

// Every copy of the parameters checks all of its blocks, also those of other replicas' owners, so that all copies come
// to the same verdict.
void GatheredStep::CheckWholeBlocks(StepVerdict* verdict) {
  const size_t rounds = gather_->round_count();
  CheckResult result;
  Status checked;
  for (size_t i = 0; i < rounds; ++i) {
    // Begin with the round in which a step starts: a rank that lost the agreement reports its failure there.
    const size_t round = (OwnRound(0) + i) % rounds;
    Status lost = gather_->Collect(round, inputs_.buffers.all(), context_.takes_part());
    if (!lost.ok()) {
      if (i + 1 < rounds) {
        gather_->ReportInCollect((round + 1) % rounds, lost);
      } else {
        shards_->Report(lost);
      }
      verdict->status = std::move(lost);
      return;
    }
    if (checked.ok()) checked = CheckRound(round, &result);
  }
  StepVerdict of_all{.status = std::move(checked), .skip_step = result.skip_step};
  shards_->AgreeOnCode(&of_all, nullptr);
  verdict->status = std::move(of_all.status);
  verdict->skip_step = verdict->skip_step || of_all.skip_step;
  if (verdict->status.ok()) result.LogMessages();
}

Status GatheredStep::CheckRound(size_t round, CheckResult* result) {
  ListRound(round);
  for (size_t k = 0; k < round_items_.size(); ++k) {
    SHAMPOO_RETURN_IF_ERROR(checker_.CheckGradient(k, round_items_[k], &context_, result));
  }
  return {};
}

// Lists and scans the blocks of a round that came to this rank.
void GatheredStep::ListRound(size_t round) {
  round_items_.clear();
  for (const WholeBlock& whole : gather_->RoundAt(round).whole) {
    const Block& block = inputs_.plan.block(whole.block);
    if (!context_.TakesPart(inputs_.plan.param(block))) continue;
    StepItem& item = context_.ItemOf(whole.block);
    if (!item.skip_update) round_items_.push_back(&item);
  }
  checker_.Scan(round_items_);
}

// The other ranks may be at the first round of the step.
Status GatheredStep::StepNothing(StepVerdict verdict) {
  if (shards_->comm()->failed()) {
    gather_->ReportInCollect(OwnRound(0), verdict.status);
  } else {
    // A rank whose agreement failed does not know the verdict, and reports its failure here.
    Status lost = gather_->JoinCollect(OwnRound(0));
    // Texts follow. Even a rank that lost the exchange fetches them, as all others do.
    if (shards_->text_is_due()) {
      Status of_all = shards_->FetchText();
      if (lost.ok()) lost = std::move(of_all);
    }
    if (!lost.ok()) verdict.status = std::move(lost);
  }
  SHAMPOO_RETURN_IF_ERROR(replicas_->Share(0, verdict, context_, shards_.get()));
  context_.FinishSkipped();
  return {};
}

Status GatheredStep::StepBucket(int64_t bucket, const StepVerdict& verdict) {
  const size_t round = OwnRound(bucket);
  Status status = gather_->Collect(round, inputs_.buffers.all(), context_.takes_part());
  if (!status.ok()) return Fail(std::move(status), bucket, Phase::kCollect);
  CheckOwnedStates(round);
  context_.Compute(context_.ItemsOfBucket(bucket, true));
  if (bucket + 1 == bucket_count()) context_.RecordRoots();
  status = gather_->Deliver(round, context_.takes_part(), context_.update_skipped(), ArrivedFromOwn(bucket));
  if (!status.ok()) return Fail(std::move(status), bucket, Phase::kDeliver);
  status = replicas_->Share(bucket, verdict, context_, shards_.get());
  if (!status.ok()) return Fail(std::move(status), bucket, Phase::kShare);
  ApplyDelivered(bucket);
  return {};
}

// Whether its state fits the gradient is known only to the owner of a block. If not, the block's update is skipped,
// which the holders see.
void GatheredStep::CheckOwnedStates(size_t round) {
  ListRound(round);
  for (size_t k = 0; k < round_items_.size(); ++k) {
    if (!checker_.FitsState(k, *round_items_[k])) round_items_[k]->skip_update = true;
  }
}

// Each communicator reports a failure at most once: of several rounds in which it would, the first one counts. What is
// not reported when the step ends is reported by the next step.
Status GatheredStep::Fail(Status failure, int64_t bucket, Phase phase) {
  if (phase == Phase::kCollect) gather_->ReportInDeliver(OwnRound(bucket), failure, ArrivedFromOwn(bucket));
  if (phase != Phase::kShare) replicas_->ReportWithShards(bucket, failure, shards_.get());
  // After the first bucket was shared, the shard ranks know the verdict unless their agreement failed.
  const bool shards_know = phase == Phase::kShare && bucket == 0 && !shards_->comm()->failed();
  if (!shards_know && bucket + 1 < bucket_count()) gather_->ReportInCollect(OwnRound(bucket + 1), failure);
  return failure;
}

void GatheredStep::ApplyDelivered(int64_t bucket) {
  slice_items_.clear();
  for (int replica = 0; replica < inputs_.plan.placement.replica_world; ++replica) {
    const GatherRound& round = gather_->RoundAt(gather_->RoundIndex(bucket, replica));
    char* const arrived = replicas_->ArrivedFrom(bucket, replica);
    for (const ShardSlice& part : round.held) {
      const Block& block = inputs_.plan.block(part.block);
      const auto param = static_cast<size_t>(block.param);
      if (!context_.TakesPart(inputs_.plan.params[param])) continue;
      SliceItem applied{context_.ItemOf(part.block), {&block, &part.region, part.elements}};
      applied.item.buffers = &inputs_.buffers.all()[param];
      applied.item.exchange = arrived + part.update_at;
      slice_items_.push_back(applied);
    }
  }
  backend_->ApplySlices(slice_items_);
}

}  // namespace shampoo
