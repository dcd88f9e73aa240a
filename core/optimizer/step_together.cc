// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The step of an optimizer whose blocks are divided over ranks: each computes the updates of its own, one exchange for
// each bucket brings them together, and every rank applies them all.
#include <algorithm>

#include "core/base/amount.h"
#include "core/base/hash.h"
#include "core/base/text.h"
#include "core/comm/agreement.h"
#include "core/optimizer/optimizer.h"

namespace shampoo {
namespace {

constexpr const char* kAsTheyWere = ": parameters are as they were. ";

}  // namespace

Status Optimizer::StepTogether(const Status& checked, bool skip_step) {
  const bool go = checked.ok() && !skip_step;
  if (go) BeginStep();
  for (int64_t bucket = 0; bucket < exchange_->buckets(); ++bucket) {
    if (go) ComputeBucket(bucket);
    if (go && bucket + 1 == exchange_->buckets()) EnterRoots();
    Status verdict = GatherBucket(bucket, checked, skip_step);
    // What copies of one shard find must stop the other shards, too, before they apply anything.
    if (shards_ && bucket == 0) verdict = AgreeOnVerdict(std::move(verdict));
    if (bucket == 0 && !(go && verdict.ok())) verdict = EndEarly(std::move(verdict));
    SHAMPOO_RETURN_IF_ERROR(std::move(verdict));
    if (!go) break;
    ApplyBucket(bucket);
  }
  return FinishStep(go);
}

// After the first exchange of a step that goes no further.
Status Optimizer::EndEarly(Status verdict) {
  Status lost = exchange_->Pass(verdict);
  return lost.ok() ? std::move(verdict) : std::move(lost);
}

// The last part of every step. go: false where the step is skipped.
Status Optimizer::FinishStep(bool go) {
  // What was gathered has gone its way as blocks that stand still.
  if (!go || !gathering_) nonfinite_blocks_ += static_cast<int64_t>(bad_items_.size());
  if (!go) {
    CopyState();
    CompleteSkippedStep();
    return {};
  }
  AdvanceGroups();
  if (!gathering_) PassBadItems();
  CompleteSkipped();
  ++steps_;
  EnterStanding();
  if (exchange_) TakeOverdueOfOthers();
  return {};
}

Status Optimizer::GatherBucket(int64_t bucket, const Status& checked, bool skip_step) {
  SHAMPOO_RETURN_IF_ERROR(exchange_->Gather(bucket, HeaderFor(checked, skip_step, bucket)));
  SHAMPOO_RETURN_IF_ERROR(exchange_->CheckFailures(checked));
  if (bucket > 0) return {};
  SHAMPOO_RETURN_IF_ERROR(exchange_->CompareHeaders());
  SHAMPOO_RETURN_IF_ERROR(CompareInputs());
  return CompareReplicas();
}

Status Optimizer::AgreeOnVerdict(Status own) {
  if (shards_->comm()->failed()) return own;  // and known to be
  ShardStatus::Flags flags;
  Status of_all = shards_->Agree(own, HashOfScalars(), &flags, shard_steps_, shard_gradients_);
  return own.ok() ? std::move(of_all) : std::move(own);
}

// Of the items, those of one bucket: this rank's own, or all.
std::span<const StepItem> Optimizer::ItemsOf(int64_t bucket, bool own) {
  bucket_items_.clear();
  for (const StepItem& item : items_) {
    if (item.block->bucket == bucket && (!own || Owns(*item.block))) bucket_items_.push_back(item);
  }
  return bucket_items_;
}

void Optimizer::ComputeBucket(int64_t bucket) {
  const std::span<const StepItem> items = ItemsOf(bucket, true);
  for (const StepItem& item : items) {
    refreshed_[BlockIndex(item)] = static_cast<char>(item.schedule.refreshes() && !item.skip_update);
  }
  backend_->Step(items, state_out_);
}

void Optimizer::ApplyBucket(int64_t bucket) { backend_->ApplyExchanged(ItemsOf(bucket, false)); }

SegmentHeader Optimizer::HeaderFor(const Status& checked, bool skip_step, int64_t bucket) {
  SegmentHeader header{};
  header.code = static_cast<int64_t>(checked.code());
  header.echo = failure_is_echo_ ? 1 : 0;
  header.overdue_root = roots_.overdue();
  if (bucket > 0 || !checked.ok()) return header;

  const auto* const counters = reinterpret_cast<const int64_t*>(state_in_);
  TakeInputs(counters, skip_step);
  header.step = *std::max_element(counters, counters + groups_.size());
  header.inputs = HashBytes(inputs_.data(), inputs_.size() * sizeof inputs_[0], 0);
  header.scalars = HashOfScalars();
  if (VerifiesReplicas()) {
    HashParameters();
    header.parameters = HashBytes(parameter_hash_.data(), parameter_hash_.size() * sizeof parameter_hash_[0], 0);
  }
  return header;
}

// What must be the same on all ranks beside hyper-parameters.
void Optimizer::TakeInputs(const int64_t* counters, bool skip_step) {
  const size_t params = plan_->params.size();
  for (size_t p = 0; p < params; ++p) inputs_[p] = TakesPart(plan_->params[p]) ? 1 : 0;
  for (const StepItem& item : bad_items_) inputs_[static_cast<size_t>(item.block->param)] += 2;
  for (size_t g = 0; g < groups_.size(); ++g) inputs_[params + g] = counters[g];
  inputs_[params + groups_.size()] = skip_step ? 1 : 0;
}

uint64_t Optimizer::HashOfScalars() const {
  uint64_t hash = 0;
  for (const Group& group : groups_) {
    for (const Key& key : Keys()) {
      if (!key.changeable || key.number == nullptr) continue;
      double value = group.settings.*key.number;
      // What is bound on a device the host cannot read.
      if (!device_ && key.number == &Settings::lr) value = group.CurrentLr();
      if (!device_ && key.number == &Settings::gradient_scale) value = group.CurrentScale();
      hash = HashBytes(&value, sizeof value, hash);
    }
  }
  return hash;
}

// Gradients are the same on all ranks, so that what the checks say of them is, too.
Status Optimizer::CompareInputs() {
  if (exchange_->Same(&SegmentHeader::inputs)) return {};
  Difference difference;
  SHAMPOO_RETURN_IF_ERROR(FindInput(exchange_->comm(), &difference));
  return NoDifferenceFound(exchange_->comm(), "the inputs of a step");
}

// The input that differs. Collective.
Status Optimizer::FindInput(Communicator* comm, Difference* found) {
  std::vector<int64_t> inputs;
  SHAMPOO_RETURN_IF_ERROR(GatherNumbers(comm, inputs_, &inputs));
  *found = FirstDifference(inputs, comm->world());
  const Difference& difference = *found;
  if (!difference.found) return {};
  const size_t params = plan_->params.size();
  if (difference.index >= params) {
    const size_t group = difference.index - params;
    if (group >= groups_.size()) {
      return Invalid("rank ", difference.rank, difference.value != 0 ? " skips" : " does not skip",
                     " this step, other than rank ", difference.usual_rank, kAsTheyWere,
                     "Gradients must be the same on all ranks");
    }
    return WrongState("rank ", difference.rank, " has made ", CountText(difference.value, "step"), " of group ", group,
                      " and rank ", difference.usual_rank, " ", difference.usual, kAsTheyWere,
                      "Give all ranks the state of the same step, and step them alike");
  }
  const std::string& name = plan_->params[difference.index].desc.name;
  const auto has = [](int64_t input) { return (input & 1) != 0 ? " has a gradient" : " has no gradient"; };
  if ((difference.value & 1) != (difference.usual & 1)) {
    return Invalid("rank ", difference.rank, has(difference.value), " for parameter \"", name, "\" and rank ",
                   difference.usual_rank, has(difference.usual), kAsTheyWere,
                   "Bind gradients for the same parameters on all ranks");
  }
  return Numeric("rank ", difference.rank, " finds ", CountText(difference.value / 2, "block"), " of parameter \"",
                 name, "\" with a gradient that is not finite, and rank ", difference.usual_rank, " finds ",
                 difference.usual / 2, kAsTheyWere,
                 "Gradients must be the same on all ranks: average them before a step");
}

bool Optimizer::VerifiesReplicas() const {
  const int64_t every = plan_->groups[0].verify_replicas;
  return every > 0 && steps_ % every == 0;
}

void Optimizer::HashParameters() {
  stretches_.clear();
  stretch_param_.clear();
  for (size_t p = 0; p < buffers_.size(); ++p) {
    const Param& param = plan_->params[p];
    if (param.elements == 0 || buffers_[p].param == nullptr) continue;
    AddStretches(p, buffers_[p].param, param.desc.param_dtype, param.elements);
  }
  backend_->Hash(stretches_, stretch_hash_.data());
  std::fill(parameter_hash_.begin(), parameter_hash_.end(), 0);
  for (size_t i = 0; i < stretches_.size(); ++i) {
    int64_t& hash = parameter_hash_[static_cast<size_t>(stretch_param_[i])];
    hash = static_cast<int64_t>(HashBytes(&stretch_hash_[i], sizeof stretch_hash_[i], static_cast<uint64_t>(hash)));
  }
}

Status Optimizer::CompareReplicas() {
  if (exchange_->Same(&SegmentHeader::parameters)) return {};
  std::vector<int64_t> hashes;
  SHAMPOO_RETURN_IF_ERROR(GatherNumbers(exchange_->comm(), parameter_hash_, &hashes));
  const Difference difference = FirstDifference(hashes, exchange_->comm()->world());
  if (!difference.found) return NoDifferenceFound(exchange_->comm(), "the parameters");
  return WrongState("verify_replicas: parameter \"", plan_->params[difference.index].desc.name,
                    "\" has other bits on rank ", difference.rank, " than on rank ", difference.usual_rank, kAsTheyWere,
                    "Copy the parameters of one rank to all, or load a checkpoint, and look for what wrote them");
}

void Optimizer::TakeOverdueOfOthers() {
  for (int rank = 0; rank < exchange_->comm()->world(); ++rank) {
    const int64_t root = exchange_->HeaderOf(rank).overdue_root;
    if (root >= 0 && rank != plan_->placement.replica_rank) overdue_elsewhere_ = root;
  }
}

}  // namespace shampoo
