// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The step of an optimizer whose blocks are brought together from the shards of several ranks (shard_mode gather): for
// each bucket gradients and parameters are collected by the owners of the blocks, and updates are delivered to the
// holders of the parameters, over all replicas where there are several.
#include <algorithm>

#include "core/base/log.h"
#include "core/optimizer/check_phase.h"
#include "core/optimizer/optimizer.h"

namespace shampoo {

void Optimizer::PrepareGathering() {
  takes_part_.resize(plan_->params.size());
  whole_buffers_.resize(plan_->blocks.size());
  int64_t parts = 0;
  size_t largest_round = 0;
  for (size_t i = 0; i < gathering_->rounds(); ++i) {
    largest_round = std::max(largest_round, gathering_->RoundAt(i).whole.size());
    for (const WholeBlock& whole : gathering_->RoundAt(i).whole) {
      Buffers& buffers = whole_buffers_[static_cast<size_t>(whole.block)];
      buffers.param = gathering_->ParamOf(whole);
      buffers.grad = gathering_->GradientOf(whole);
      buffers.out = gathering_->GradientOf(whole);
    }
    parts += static_cast<int64_t>(gathering_->RoundAt(i).held.size());
  }
  slice_items_.reserve(static_cast<size_t>(parts));
  block_bound_.resize(largest_round);
}

// Before it is known what other ranks have: of a parameter of which this rank holds nothing others may.
void Optimizer::AssumeGradients() {
  for (size_t p = 0; p < takes_part_.size(); ++p) {
    const Param& param = plan_->params[p];
    takes_part_[p] = param.block_count > 0 && (param.elements == 0 || HasGradient(param)) ? 1 : 0;
  }
}

void Optimizer::TakeAgreedGradients() {
  for (size_t p = 0; p < takes_part_.size(); ++p) {
    const Param& param = plan_->params[p];
    takes_part_[p] = ShardStatus::IsGiven(shard_gradients_[p]) ? 1 : 0;
    // An owner may hold nothing of a parameter, and must know whether a copy is written of it.
    const bool copied = shard_gradients_[p] == ShardStatus::kGivenWithCopy;
    for (int64_t i = param.first_block; i < param.first_block + param.block_count; ++i) {
      Buffers& buffers = whole_buffers_[static_cast<size_t>(i)];
      buffers.copy = copied ? buffers.out : nullptr;
    }
  }
}

// Whether a gradient of this rank's shards may be refused, whatever the state: then owners look at all of them before
// anything is written. What only an owner's state refuses is found when the blocks are there.
bool Optimizer::DoubtsGradients() {
  bad_items_.clear();
  ScanGradients();
  for (const StepItem& item : items_) {
    const double bound = gradient_bound_[static_cast<size_t>(item.block->param)];
    if (!IsHarmless(backend_.get(), item, bound, nullptr)) return true;
  }
  return false;
}

// Every copy of the parameters looks at all of its blocks, those of other replicas' owners too, so that all copies come
// to the same verdict.
Status Optimizer::InspectTogether(Status checked, bool* skip_step) {
  if (!checked.ok() || !doubts_) return checked;
  std::vector<std::string> messages;
  Status verdict;
  const size_t rounds = gathering_->rounds();
  for (size_t i = 0; i < rounds; ++i) {
    // The first is that of the step itself: to it goes whoever does not know whether there is an inspection.
    const size_t round = (OwnRound(0) + i) % rounds;
    Status lost = gathering_->Collect(round, backend_.get(), buffers_, takes_part_);
    if (!lost.ok()) {
      if (i + 1 < rounds) {
        gathering_->TellInCollect((round + 1) % rounds, lost);
      } else {
        shards_->Tell(lost);
      }
      return lost;
    }
    ScanWholeBlocks(round);
    const size_t blocks = gathering_->RoundAt(round).whole.size();
    for (size_t k = 0; k < blocks && verdict.ok(); ++k) {
      StepItem* const item = WholeItem(round, k);
      if (item == nullptr || IsHarmless(backend_.get(), *item, block_bound_[k], nullptr)) continue;
      verdict = CheckBlock(item, nullptr, &messages, skip_step);
    }
  }
  ShardStatus::Flags flags{.skip = *skip_step};
  SHAMPOO_RETURN_IF_ERROR(shards_->Agree(verdict, HashOfScalars(), &flags, shard_steps_, shard_gradients_, true));
  *skip_step = flags.skip;
  for (std::string& message : messages) LogText(LogLevel::kWarning, [&] { return std::move(message); });
  return {};
}

Status Optimizer::StepGathered(Status checked, bool skip_step) {
  const bool go = checked.ok() && !skip_step;
  if (go) {
    BeginStep();
  } else if (shards_->comm()->failed()) {
    gathering_->TellInCollect(OwnRound(0), checked);
  } else {
    // A rank whose communicator has just failed cannot know of the verdict, and tells of its failure here.
    Status lost = gathering_->PassCollect(OwnRound(0));
    // Texts come after it, and even a rank that has lost the exchange takes part in theirs, as all others do.
    if (shards_->text_is_due()) {
      Status of_all = shards_->FetchText();
      if (lost.ok()) lost = std::move(of_all);
    }
    if (!lost.ok()) checked = std::move(lost);
  }
  const auto buckets = static_cast<int64_t>(plan_->bucket_count);
  for (int64_t bucket = 0; bucket < buckets; ++bucket) {
    if (go) {
      SHAMPOO_RETURN_IF_ERROR(CollectBucket(bucket));
      CheckOwned(bucket);
      ComputeBucket(bucket);
      if (bucket + 1 == buckets) EnterRoots();
      SHAMPOO_RETURN_IF_ERROR(DeliverBucket(bucket));
    }
    if (exchange_) {
      Status verdict = GatherBucket(bucket, checked, skip_step);
      if (bucket == 0) {
        verdict = AgreeOnVerdict(std::move(verdict));
        if (!go || !verdict.ok()) verdict = EndEarly(std::move(verdict));
        if (go && shards_->comm()->failed() && buckets > 1) gathering_->TellInCollect(OwnRound(1), verdict);
      } else if (!verdict.ok() && bucket + 1 < buckets) {
        gathering_->TellInCollect(OwnRound(bucket + 1), verdict);
      }
      SHAMPOO_RETURN_IF_ERROR(std::move(verdict));
    } else if (!checked.ok()) {
      return checked;
    }
    if (!go) break;
    ApplyDelivered(bucket);
  }
  return FinishStep(go);
}

Status Optimizer::CollectBucket(int64_t bucket) {
  Status status = gathering_->Collect(OwnRound(bucket), backend_.get(), buffers_, takes_part_);
  return status.ok() ? Status{} : Lose(std::move(status), bucket, false);
}

Status Optimizer::DeliverBucket(int64_t bucket) {
  Status status = gathering_->Deliver(OwnRound(bucket), backend_.get(), takes_part_, update_skipped_,
                                      Arrived(bucket, plan_->placement.replica_rank));
  return status.ok() ? Status{} : Lose(std::move(status), bucket, true);
}

// A collective between shards has failed: the ranks that cannot know are told in the exchanges that they go on to. What
// is left of those when the step ends is told by the next step.
Status Optimizer::Lose(Status failure, int64_t bucket, bool delivering) {
  if (!delivering) {
    gathering_->TellInDeliver(OwnRound(bucket), failure, Arrived(bucket, plan_->placement.replica_rank));
  }
  if (exchange_) {
    exchange_->Tell(bucket, failure);
    if (bucket == 0) shards_->Tell(failure);
  }
  if (bucket + 1 < static_cast<int64_t>(plan_->bucket_count)) {
    gathering_->TellInCollect(OwnRound(bucket + 1), failure);
  }
  return failure;
}

// Where updates of a replica's blocks arrive for this rank's shards.
char* Optimizer::Arrived(int64_t bucket, int replica) const {
  return exchange_ ? exchange_->PayloadOf(bucket, replica) : gathering_->arrived();
}

// The k-th block that came to this rank in a round; nullptr: it takes no part, or stands still already.
StepItem* Optimizer::WholeItem(size_t round, size_t k) {
  const auto index = static_cast<size_t>(gathering_->RoundAt(round).whole[k].block);
  const Param& param = plan_->params[static_cast<size_t>(plan_->blocks[index].param)];
  StepItem* const item = TakesPart(param) ? &items_[item_of_block_[index]] : nullptr;
  return item != nullptr && !item->skip_update ? item : nullptr;
}

// The largest |G| of each block that came to this rank in a round, or a bound of it.
void Optimizer::ScanWholeBlocks(size_t round) {
  scanned_.clear();
  for (size_t k = 0; k < gathering_->RoundAt(round).whole.size(); ++k) {
    const StepItem* const item = WholeItem(round, k);
    if (item == nullptr) continue;
    scanned_.push_back({&item->param->desc, item->buffers, item->block->elements, item->program, &block_bound_[k]});
  }
  BoundScanned();
}

// What gradients would do to the state is known to its owner alone: such a block stands still, which the holders see.
void Optimizer::CheckOwned(int64_t bucket) {
  const size_t round = OwnRound(bucket);
  ScanWholeBlocks(round);
  for (size_t k = 0; k < gathering_->RoundAt(round).whole.size(); ++k) {
    StepItem* const item = WholeItem(round, k);
    if (item == nullptr || IsHarmless(backend_.get(), *item, block_bound_[k], state_in_)) continue;
    if (!CheckStateOf(*item)) item->skip_update = true;
  }
}

void Optimizer::ApplyDelivered(int64_t bucket) {
  slice_items_.clear();
  for (int replica = 0; replica < plan_->placement.replica_world; ++replica) {
    const GatherRound& round = gathering_->RoundAt(gathering_->RoundIndex(bucket, replica));
    char* const arrived = Arrived(bucket, replica);
    for (const BlockPart& part : round.held) {
      const auto index = static_cast<size_t>(part.block);
      const Block& block = plan_->blocks[index];
      if (!TakesPart(plan_->params[static_cast<size_t>(block.param)])) continue;
      SliceItem applied{items_[item_of_block_[index]], {&block, &part.region, part.elements}};
      applied.item.buffers = &buffers_[static_cast<size_t>(block.param)];
      applied.item.exchange = arrived + part.update_at;
      slice_items_.push_back(applied);
    }
  }
  backend_->ApplySlices(slice_items_);
}

}  // namespace shampoo
