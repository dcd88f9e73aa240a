// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/comm/round.h"
#include "core/comm/segment_header.h"
#include "core/step/step_context.h"
#include "core/step/step_strategy.h"

namespace shampoo {

// The decision that a rank makes about a step after its checks. An agreement replaces this decision by the common
// decision of all ranks.
struct StepDecision {
  Status status;
  bool is_forwarded = false;       // `status` is about a failure of another rank, whose own error has more detail
  bool skip_step = false;          // the step succeeds without updating any block
  bool exports = false;            // the ranks exchange averages, not updates (shampoo_optimizer_export)
  bool needs_exact_check = false;  // the exact check must be made before anything is written

  bool makes_step() const { return status.ok() && !skip_step; }
};

// The agreement of the ranks that hold the shards of one copy of the parameters. Before a step writes anything, these
// ranks make the same decision and activate the same groups (see StepContext::Activate()).
class ShardAgreement {
 public:
  virtual ~ShardAgreement() = default;
  // Returns an error if a collective of the shard ranks' communicator failed in an earlier call.
  virtual Status PriorFailure() const = 0;
  // Replaces this rank's decision by the decision of all ranks, and activates the groups that are active on
  // other ranks.
  virtual void Agree(StepDecision* decision, StepContext* context) = 0;
  // Agrees on the result of the first exchange between replicas. own: the result on this rank. Returns `own` if it is
  // an error, otherwise the error of another rank, or success if no rank has an error.
  virtual Status AgreeAgain(Status own) = 0;
  // An export calls this function instead of Agree(), because an export has neither steps nor gradients to compare. If
  // other ranks make a step instead of an export, *decision becomes an error on all ranks.
  virtual void AgreeOnExport(StepDecision* decision) = 0;
  // Joins an agreement only to report a failure of this rank to the other ranks.
  virtual void Report(const Status& failure) = 0;
};

// For an optimizer that holds all elements of the parameters: there are no other ranks to agree with.
class NoShards final : public ShardAgreement {
 public:
  Status PriorFailure() const override { return {}; }
  void Agree(StepDecision* /*decision*/, StepContext* /*context*/) override {}
  Status AgreeAgain(Status own) override { return own; }
  void AgreeOnExport(StepDecision* /*decision*/) override {}
  void Report(const Status& /*failure*/) override {}
};

// The kind of memory that contains bound scalars (shampoo_optimizer_bind_scalar). The host cannot read scalars in
// device memory, so the devices of the ranks compare such scalars.
enum class BoundScalars { kOnHost, kOnDevice };

// For several ranks, which agree over a communicator. All ranks must call the same functions in the same order.
class ShardRounds final : public ShardAgreement {
 public:
  // The round number of every agreement (see round.h). All other rounds over the communicator have larger
  // numbers.
  static constexpr int64_t kRound = 0;

  // optimizer: the number from Communicator::TakeOptimizerId().
  ShardRounds(const StepInputs& inputs, std::shared_ptr<Communicator> comm, int32_t optimizer,
              BoundScalars bound_scalars);

  Communicator* comm() const { return rounds_.comm(); }
  int32_t optimizer() const { return rounds_.optimizer(); }
  Status PriorFailure() const override { return rounds_.PriorFailure(); }
  void Agree(StepDecision* decision, StepContext* context) override;
  Status AgreeAgain(Status own) override;
  void AgreeOnExport(StepDecision* decision) override;
  void Report(const Status& failure) override;

  // Agrees without exchanging error messages, unless a rank reports a failed collective. If context is nullptr,
  // compares the inputs of the last agreement, or those that SetInputs() or BeginExport() has set since then. If
  // text_is_due() returns true afterwards, *decision lacks the message of its error, and FetchText() returns the
  // complete error. With shard_mode=gather, the step makes one more exchange before FetchText(). If the collective of
  // this agreement fails on a rank, this rank reports the failure in that exchange.
  void AgreeOnCode(StepDecision* decision, const StepContext* context);
  // Agrees like AgreeOnCode() without a context, and then exchanges the message of an error. Returns the error that all
  // ranks return. differing_rank: if the devices have found different hyper-parameters, the first rank that differs
  // from rank 0; otherwise 0.
  Status AgreeOnError(Status own, int differing_rank = 0);
  // Sets the inputs that the next agreement without a context compares. steps: by group, the number of the step that
  // this rank is about to make, or 0 if it makes no step of the group.
  void SetInputs(std::span<const int64_t> steps);
  // Marks agreements without a context as agreements of an export (see AgreeOnExport()), until SetInputs() is called or
  // an agreement has a context.
  void BeginExport();
  // Returns whether the ranks still have to exchange the error message of the last AgreeOnCode().
  bool text_is_due() const { return failure_.found() && !comm()->failure_is_known(); }
  // Exchanges the error message of the last AgreeOnCode(), and returns the error with this message. Collective.
  Status FetchText();

  // HasGradient() returns whether any rank had a gradient of the parameter in the last agreement. HasCopy() returns
  // whether any rank had both a gradient and a buffer for a copy of the parameter (shampoo_buffers.copy).
  bool HasGradient(size_t param) const { return gradients_[param] >= kGradient; }
  bool HasCopy(size_t param) const { return gradients_[param] == kGradientAndCopy; }

 private:
  void AgreeWithText(StepDecision* decision, const StepContext* context);
  void TakeInputs(const StepDecision& decision, const StepContext& context);
  void TakeGradients();
  void ClearInputs();
  Status RunRound(StepDecision* decision);
  char* SegmentOf(int rank) { return buffer_.data() + rank * segment_bytes_; }
  ShardHeader HeaderOf(int rank);
  Status CompareHyperParameters();
  Status CompareGradients();
  Status CompareSteps();

  StepInputs inputs_;
  Rounds rounds_;
  bool reads_bound_scalars_;
  bool exports_ = false;    // see BeginExport()
  int differing_rank_ = 0;  // see AgreeOnError()
  RoundFailure failure_;    // the failure of the last agreement, until FetchText() is called
  std::string own_text_;
  // The inputs of this rank: by group, the step as for SetInputs(); by parameter, a GradientOnShard (see
  // rank_difference.h).
  std::vector<int64_t> own_steps_;
  std::vector<unsigned char> own_gradients_;
  // The results of the last agreement: by group, the step; by parameter, the largest GradientOnShard of any rank.
  std::vector<int64_t> steps_;
  std::vector<unsigned char> gradients_;
  int64_t segment_bytes_;
  std::vector<char> buffer_;
};

}  // namespace shampoo
