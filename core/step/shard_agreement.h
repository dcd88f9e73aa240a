// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/round.h"
#include "core/step/step_context.h"
#include "core/step/step_strategy.h"

namespace shampoo {

// What a rank knows after its checks, and then what all ranks agreed on.
struct StepVerdict {
  Status status;
  bool is_forwarded = false;       // the error is that of another rank, which has more detail
  bool skip_step = false;          // the step succeeds and changes nothing
  bool needs_exact_check = false;  // owners must check gradients before anything is written

  bool go() const { return status.ok() && !skip_step; }
};

// The agreement of the ranks that hold the shards of one copy of the parameters: before anything is written they come
// to the same verdict, and count steps alike.
class ShardAgreement {
 public:
  virtual ~ShardAgreement() = default;
  // Returns an error if a collective of these ranks has failed before.
  virtual Status PriorFailure() const = 0;
  // Replaces this rank's verdict by that of all, and makes the groups active that other ranks step.
  virtual void Agree(StepVerdict* verdict, StepContext* context) = 0;
  // Agrees once more, on the result of the first exchange between replicas. Returns this rank's own error if it has
  // one, otherwise that of another rank.
  virtual Status AgreeAgain(Status own) = 0;
  // Takes part in an agreement only to report a failure.
  virtual void Report(const Status& failure) = 0;
};

// One rank holds the parameters whole.
class NoShards final : public ShardAgreement {
 public:
  Status PriorFailure() const override { return {}; }
  void Agree(StepVerdict* /*verdict*/, StepContext* /*context*/) override {}
  Status AgreeAgain(Status own) override { return own; }
  void Report(const Status& /*failure*/) override {}
};

// Several ranks, over a communicator. Every rank makes the same calls.
class ShardRounds final : public ShardAgreement {
 public:
  // The round number of every agreement. Other rounds over the communicator have numbers above it.
  static constexpr int64_t kRound = 0;

  // optimizer: its number among those of the communicator.
  ShardRounds(const StepInputs& inputs, std::shared_ptr<Communicator> comm, int32_t optimizer);

  Communicator* comm() const { return rounds_.comm(); }
  Status PriorFailure() const override { return rounds_.PriorFailure(); }
  void Agree(StepVerdict* verdict, StepContext* context) override;
  Status AgreeAgain(Status own) override;
  void Report(const Status& failure) override;

  // With gathered blocks the text of an error is fetched only after a further exchange, in which ranks that lost this
  // agreement take part: an error has only its code until then. context: nullptr: inputs as in the last agreement.
  void AgreeOnCode(StepVerdict* verdict, const StepContext* context);
  bool text_is_due() const { return failure_.found() && !comm()->failure_is_known(); }
  Status FetchText();

  // By parameter, after an agreement: whether some rank has a gradient of it, and a copy of the parameter to write.
  bool HasGradient(size_t param) const { return gradients_[param] >= kGradient; }
  bool HasCopy(size_t param) const { return gradients_[param] == kGradientAndCopy; }

 private:
  // What a rank has of a parameter.
  enum Gradient : char { kNoElements = 0, kNoGradient = 1, kGradient = 2, kGradientAndCopy = 3 };
  struct Header {
    RoundHeader round;
    uint64_t hyper_parameters;  // hash
  };

  void AgreeWithText(StepVerdict* verdict, const StepContext* context);
  void TakeInputs(const StepVerdict& verdict, const StepContext& context);
  Status RunRound(StepVerdict* verdict);
  char* SegmentOf(int rank) { return buffer_.data() + rank * segment_bytes_; }
  Header HeaderOf(int rank);
  Status CompareHyperParameters();
  Status CompareGradients();
  Status CompareSteps();

  StepInputs inputs_;
  Rounds rounds_;
  RoundFailure failure_;  // of the last agreement, while its text is due
  std::string own_text_;
  std::vector<int64_t> steps_;   // by group: the step that some rank is about to make; 0: none is
  std::vector<char> gradients_;  // by parameter: Gradient, the largest of any rank
  int64_t segment_bytes_;
  std::vector<char> buffer_;
};

}  // namespace shampoo
