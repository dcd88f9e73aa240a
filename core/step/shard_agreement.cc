// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/shard_agreement.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/catch_exceptions.h"
#include "core/comm/agreement.h"
#include "core/comm/received.h"
#include "core/rules/rank_difference.h"

namespace shampoo {
namespace {

// Returns an error if some shard ranks make a step and others export averages.
Status CompareActions(const Rounds& rounds) {
  const bool exports = rounds.header(0).exports();
  for (int rank = 1; rank < rounds.comm()->world(); ++rank) {
    if (rounds.header(rank).exports() == exports) continue;
    return WrongState("shard rank ", exports ? 0 : rank, " exports averages and shard rank ", exports ? rank : 0,
                      " makes a step", kNothingChanged,
                      ". Call shampoo_optimizer_step and shampoo_optimizer_export in the same order on all ranks");
  }
  return {};
}

}  // namespace

ShardRounds::ShardRounds(const StepInputs& inputs, std::shared_ptr<Communicator> comm, int32_t optimizer,
                         BoundScalars bound_scalars)
    : inputs_(inputs),
      rounds_(std::move(comm), optimizer),
      reads_bound_scalars_(bound_scalars == BoundScalars::kOnHost),
      own_steps_(inputs.plan.groups.size()),
      own_gradients_(inputs.plan.params.size()),
      steps_(own_steps_.size()),
      gradients_(own_gradients_.size()) {
  segment_bytes_ = ShardSegmentBytes(steps_.size(), gradients_.size());
  buffer_.resize(static_cast<size_t>(segment_bytes_ * rounds_.comm()->world()));
  own_text_.reserve(kTextBytes);
}

ShardHeader ShardRounds::HeaderOf(int rank) {
  ShardHeader header;
  std::memcpy(&header, SegmentOf(rank), sizeof header);
  return header;
}

void ShardRounds::AgreeOnExport(StepDecision* decision) {
  BeginExport();
  AgreeWithText(decision, nullptr);
}

void ShardRounds::BeginExport() {
  ClearInputs();
  exports_ = true;
}

void ShardRounds::ClearInputs() {
  std::fill(own_steps_.begin(), own_steps_.end(), 0);
  std::fill(own_gradients_.begin(), own_gradients_.end(), kNoElements);
}

void ShardRounds::Report(const Status& failure) {
  rounds_.Report([&] {
    ClearInputs();
    StepDecision decision;
    decision.status = CopyOf(failure);
    (void)RunRound(&decision).ok();  // the caller returns `failure`, whatever the result is
  });
}

void ShardRounds::SetInputs(std::span<const int64_t> steps) {
  std::copy(steps.begin(), steps.end(), own_steps_.begin());
  TakeGradients();
}

void ShardRounds::TakeGradients() {
  exports_ = false;
  for (size_t p = 0; p < own_gradients_.size(); ++p) {
    const Param& param = inputs_.plan.params[p];
    own_gradients_[p] = param.elements == 0                        ? kNoElements
                        : !inputs_.buffers.HasGradient(param)      ? kNoGradient
                        : inputs_.buffers.all()[p].copy == nullptr ? kGradient
                                                                   : kGradientAndCopy;
  }
}

void ShardRounds::TakeInputs(const StepDecision& decision, const StepContext& context) {
  for (size_t g = 0; g < steps_.size(); ++g) {
    const GroupStep& group = context.group(g);
    own_steps_[g] = decision.status.ok() && group.active ? group.program.t : 0;
  }
  TakeGradients();
}

void ShardRounds::Agree(StepDecision* decision, StepContext* context) {
  AgreeWithText(decision, context);
  if (!decision->status.ok()) return;
  for (size_t g = 0; g < steps_.size(); ++g) {
    if (steps_[g] != 0 && !context->group(g).active) context->Activate(g, steps_[g]);
  }
}

Status ShardRounds::AgreeAgain(Status own) {
  if (comm()->failed()) return own;  // after a failed collective, a rank joins an agreement only in Report()
  Status agreed = AgreeOnError(CopyOf(own));
  return own.ok() ? std::move(agreed) : std::move(own);
}

Status ShardRounds::AgreeOnError(Status own, int differing_rank) {
  StepDecision decision{.status = std::move(own)};
  differing_rank_ = differing_rank;
  AgreeWithText(&decision, nullptr);
  differing_rank_ = 0;
  return std::move(decision.status);
}

void ShardRounds::AgreeWithText(StepDecision* decision, const StepContext* context) {
  AgreeOnCode(decision, context);
  if (text_is_due()) decision->status = CatchExceptions([&] { return FetchText(); });
}

void ShardRounds::AgreeOnCode(StepDecision* decision, const StepContext* context) {
  if (context != nullptr) TakeInputs(*decision, *context);
  // If there is no memory for the error of the round, CatchExceptions() returns an out-of-memory error. This rank then
  // still joins the exchange of error messages. Otherwise the other ranks would wait there for this rank.
  Status status = CatchExceptions([&] { return RunRound(decision); });
  decision->status = std::move(status);
}

Status ShardRounds::RunRound(StepDecision* decision) {
  const uint32_t flags = (decision->is_forwarded ? kFailureIsForwarded : 0) | (decision->skip_step ? kSkipsStep : 0) |
                         (decision->needs_exact_check ? kNeedsExactCheck : 0) | (exports_ ? kExports : 0);
  const ShardHeader own{rounds_.HeaderFor(kRound, decision->status, flags),
                        inputs_.state.hyper_parameters().Hash(reads_bound_scalars_)};
  failure_ = {};
  own_text_.assign(decision->status.message(), 0, kTextBytes);  // allocates nothing: the capacity is kTextBytes
  char* to = SegmentOf(comm()->rank());
  std::memcpy(to, &own, sizeof own);
  to += sizeof own;
  std::memcpy(to, own_steps_.data(), own_steps_.size() * sizeof own_steps_[0]);
  std::copy(own_gradients_.begin(), own_gradients_.end(), to + own_steps_.size() * sizeof own_steps_[0]);
  std::copy(own_steps_.begin(), own_steps_.end(), steps_.begin());
  std::copy(own_gradients_.begin(), own_gradients_.end(), gradients_.begin());
  SHAMPOO_RETURN_IF_ERROR(comm()->GatherInPlace(buffer_.data(), segment_bytes_));
  SHAMPOO_RETURN_IF_ERROR(rounds_.Receive(own.round, [this](int rank) { return SegmentOf(rank); }));
  decision->skip_step = (rounds_.AnyFlags() & kSkipsStep) != 0;
  decision->needs_exact_check = (rounds_.AnyFlags() & kNeedsExactCheck) != 0;
  failure_ = rounds_.FindFailure();
  if (failure_.found()) {
    decision->is_forwarded = failure_.is_forwarded;
    // A rank on which a collective failed joins only this round and an exchange of error messages directly after this
    // round. The message of such a failure is therefore fetched now. The caller fetches the message of any other
    // failure, possibly after another exchange.
    return failure_.code == Code::kComm ? FetchText() : Status(failure_.code, "");
  }
  SHAMPOO_RETURN_IF_ERROR(CompareActions(rounds_));
  SHAMPOO_RETURN_IF_ERROR(CompareHyperParameters());
  SHAMPOO_RETURN_IF_ERROR(CompareGradients());
  return CompareSteps();
}

Status ShardRounds::FetchText() { return rounds_.FetchError(std::exchange(failure_, {}), own_text_); }

Status ShardRounds::CompareHyperParameters() {
  int differing = differing_rank_;
  for (int rank = 1; differing == 0 && rank < comm()->world(); ++rank) {
    if (HeaderOf(rank).hyper_parameters != HeaderOf(0).hyper_parameters) differing = rank;
  }
  if (differing == 0) return {};
  return Invalid("shard rank ", differing,
                 " has a different learning rate, gradient_scale or other changeable hyper-parameter than shard rank 0",
                 kNothingChanged, ". Set the same values on all ranks");
}

Status ShardRounds::CompareGradients() {
  const size_t before = sizeof(ShardHeader) + steps_.size() * sizeof steps_[0];
  for (size_t p = 0; p < gradients_.size(); ++p) {
    const auto gradient_of = [&](int64_t rank) {
      return static_cast<unsigned char>(SegmentOf(static_cast<int>(rank))[before + p]);
    };
    for (int rank = 0; rank < comm()->world(); ++rank) {
      const unsigned char gradient = gradient_of(rank);
      SHAMPOO_RETURN_IF_ERROR(
          CheckReceivedOrAbort(comm(), {"state of a gradient", rank, gradient}, kNoElements, kGradientAndCopy));
      gradients_[p] = std::max(gradients_[p], gradient);
    }
    const GradientDifference ranks = FindGradientDifference(comm()->world(), gradient_of);
    if (!ranks.found()) continue;
    return Invalid("shard rank ", ranks.with, " has a gradient for parameter \"", inputs_.plan.params[p].desc.name,
                   "\" and shard rank ", ranks.without, " has none", kNothingChanged,
                   ". Bind gradients for the same parameters on all ranks");
  }
  return {};
}

Status ShardRounds::CompareSteps() {
  for (size_t g = 0; g < steps_.size(); ++g) {
    const auto step_of = [&](int64_t rank) {
      int64_t step = 0;
      std::memcpy(&step, SegmentOf(static_cast<int>(rank)) + sizeof(ShardHeader) + g * sizeof step, sizeof step);
      return step;
    };
    for (int rank = 0; rank < comm()->world(); ++rank) {
      SHAMPOO_RETURN_IF_ERROR(CheckReceivedOrAbort(comm(), {"step of a group", rank, step_of(rank)}, 0, kStepLimit));
    }
    const ShardStep found = FindShardStep(comm()->world(), step_of);
    steps_[g] = found.step;
    if (found.differing < 0) continue;
    return WrongState("shard rank ", found.differing, " is at step ", step_of(found.differing), " of group ", g,
                      ", and shard rank ", found.first, " is at step ", found.step, kNothingChanged,
                      ". Load the state of the same step on all ranks, and then call shampoo_optimizer_step equally "
                      "often on all ranks");
  }
  return {};
}

}  // namespace shampoo
