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

// What a rank decides after its checks; after an agreement, the decision of all ranks.
struct StepDecision {
  Status status;
  bool is_forwarded = false;       // another rank failed, and its own report has more detail
  bool skip_step = false;          // the step succeeds without changing anything
  bool exports = false;            // averages are exchanged instead of updates (shampoo_optimizer_export)
  bool needs_exact_check = false;  // owners must check gradients before anything is written

  bool makes_step() const { return status.ok() && !skip_step; }
};

// The agreement of the ranks that hold the shards of one copy of the parameters. Before anything is written they make
// the same decision and activate the same groups.
class ShardAgreement {
 public:
  virtual ~ShardAgreement() = default;
  // Returns an error if the communicator of these ranks has failed before.
  virtual Status PriorFailure() const = 0;
  // Replaces this rank's decision by the decision of all ranks, and activates the groups that are active on
  // other ranks.
  virtual void Agree(StepDecision* decision, StepContext* context) = 0;
  // Agrees on the result of the first exchange between replicas. Returns this rank's own error if it has one, otherwise
  // the error of another rank.
  virtual Status AgreeAgain(Status own) = 0;
  // Replaces Agree() in an export, which has neither steps nor gradients to compare. If other ranks make a step, all
  // ranks find this difference.
  virtual void AgreeOnExport(StepDecision* decision) = 0;
  // Joins an agreement only to report a failure.
  virtual void Report(const Status& failure) = 0;
};

// One rank holds all elements of the parameters.
class NoShards final : public ShardAgreement {
 public:
  Status PriorFailure() const override { return {}; }
  void Agree(StepDecision* /*decision*/, StepContext* /*context*/) override {}
  Status AgreeAgain(Status own) override { return own; }
  void AgreeOnExport(StepDecision* /*decision*/) override {}
  void Report(const Status& /*failure*/) override {}
};

// The memory to which scalars are bound (shampoo_optimizer_bind_scalar). The host cannot read scalars in device memory,
// so the devices compare them.
enum class BoundScalars { kOnHost, kOnDevice };

// Several ranks, over a communicator. Every rank makes the same calls.
class ShardRounds final : public ShardAgreement {
 public:
  // The round number of every agreement. Other rounds over the communicator have numbers above it.
  static constexpr int64_t kRound = 0;

  // optimizer: from Communicator::TakeOptimizerId().
  ShardRounds(const StepInputs& inputs, std::shared_ptr<Communicator> comm, int32_t optimizer,
              BoundScalars bound_scalars);

  Communicator* comm() const { return rounds_.comm(); }
  int32_t optimizer() const { return rounds_.optimizer(); }
  Status PriorFailure() const override { return rounds_.PriorFailure(); }
  void Agree(StepDecision* decision, StepContext* context) override;
  Status AgreeAgain(Status own) override;
  void AgreeOnExport(StepDecision* decision) override;
  void Report(const Status& failure) override;

  // Agrees without exchanging the text of an error. An error then has only a code, except if a collective failed. With
  // gathered blocks, one more exchange follows before the text is fetched. A rank on which this agreement failed
  // reports the failure in that exchange. If context is nullptr, compares the inputs that the last agreement,
  // SetInputs() or BeginExport() has left.
  void AgreeOnCode(StepDecision* decision, const StepContext* context);
  // Agrees like AgreeOnCode() without a context, and then exchanges the text of an error. Returns the error that all
  // ranks return. differing_rank: if the devices have found different hyper-parameters, the first rank that differs
  // from rank 0; otherwise 0.
  Status AgreeOnError(Status own, int differing_rank = 0);
  // Sets the inputs that the next agreement without a context compares. steps: by group, the step that this rank is
  // about to make; 0: none.
  void SetInputs(std::span<const int64_t> steps);
  // Makes the next agreements without a context those of an export; see AgreeOnExport().
  void BeginExport();
  // Returns whether the ranks still have to exchange the text of the error of the last AgreeOnCode().
  bool text_is_due() const { return failure_.found() && !comm()->failure_is_known(); }
  // Exchanges that text and returns the error. Collective.
  Status FetchText();

  // After an agreement: whether any rank has a gradient of a parameter, or a copy of the parameter to write.
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
  RoundFailure failure_;    // the failure of the last agreement, while its text is due
  std::string own_text_;
  // The inputs of this rank: by group, the step that it is about to make (0: none); by parameter, a GradientOnShard.
  std::vector<int64_t> own_steps_;
  std::vector<unsigned char> own_gradients_;
  // What the ranks agreed on: by group, the step; by parameter, the largest GradientOnShard of any rank.
  std::vector<int64_t> steps_;
  std::vector<unsigned char> gradients_;
  int64_t segment_bytes_;
  std::vector<char> buffer_;
};

}  // namespace shampoo
