// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/optimizer/shard_status.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/round_up.h"
#include "core/comm/agreement.h"
#include "core/comm/received.h"
#include "core/plan/assignment.h"
#include "core/step/program.h"

namespace shampoo {

ShardStatus::ShardStatus(const PlanData& plan, std::shared_ptr<Communicator> comm, int32_t number)
    : comm_(std::move(comm)), number_(number) {
  for (const Param& param : plan.params) names_.push_back(param.desc.name);
  const size_t bytes = sizeof(Head) + plan.groups.size() * sizeof(int64_t) + plan.params.size();
  segment_bytes_ = RoundUp(static_cast<int64_t>(bytes), kSegmentAlignment);
  buffer_.resize(static_cast<size_t>(segment_bytes_ * comm_->world()));
}

ShardStatus::Head ShardStatus::HeadOf(int rank) {
  Head head;
  std::memcpy(&head, SegmentOf(rank), sizeof head);
  return head;
}

// Whether the code and the flags are such as ranks send.
Status ShardStatus::RequireHeads() {
  for (int rank = 0; rank < comm_->world(); ++rank) {
    const Head head = HeadOf(rank);
    SHAMPOO_RETURN_IF_ERROR(RequireCode(comm_.get(), rank, head.code));
    for (const uint8_t flag : {head.echo, head.skip, head.doubt}) {
      SHAMPOO_RETURN_IF_ERROR(RequireReceived(comm_.get(), {"flag of a step", rank, flag}, 0, 1));
    }
  }
  return {};
}

void ShardStatus::Tell(const Status& failure) {
  if (comm_->failed() && !comm_->TakeFailureToTell()) return;
  Flags none;
  // This rank has its failure already, whatever comes of it.
  (void)Agree(failure, 0, &none, {}, {}).ok();
}

Status ShardStatus::FetchText() {
  const int cause = std::exchange(cause_, -1);
  const auto code = static_cast<Code>(HeadOf(cause).code);
  std::vector<std::string> texts;
  SHAMPOO_RETURN_IF_ERROR(GatherTexts(comm_.get(), own_text_, &texts));
  const std::string text = TextOfFailure(*comm_, cause, texts[static_cast<size_t>(cause)]);
  if (code == Code::kComm) return comm_->FailTogether(Status(code, text));  // which names the rank
  return Status(code, Cat("shard rank ", cause, ": ", text));
}

Status ShardStatus::Agree(const Status& own, uint64_t scalars, Flags* flags, std::span<int64_t> step_of_group,
                          std::span<char> gradients, bool text_later) {
  const auto byte = [](bool flag) { return static_cast<uint8_t>(flag ? 1 : 0); };
  const Head head{
      static_cast<int64_t>(own.code()), scalars, number_, byte(flags->echo), byte(flags->skip), byte(flags->doubt), {}};
  char* const segment = SegmentOf(comm_->rank());
  std::memcpy(segment, &head, sizeof head);
  const auto steps = std::as_bytes(step_of_group);  // none where a failure is told
  std::copy(steps.begin(), steps.end(), reinterpret_cast<std::byte*>(segment + sizeof head));
  std::copy(gradients.begin(), gradients.end(), segment + sizeof head + step_of_group.size_bytes());
  SHAMPOO_RETURN_IF_ERROR(comm_->GatherInPlace(buffer_.data(), segment_bytes_));
  for (int rank = 0; rank < comm_->world(); ++rank) {
    const int64_t number = HeadOf(rank).number;
    SHAMPOO_RETURN_IF_ERROR(RequireOptimizer(comm_.get(), rank, number));
    if (number == number_) continue;
    return comm_->FailTogether(CommFailed(
        "shard rank ", rank, " steps optimizer ", number, " where shard rank ", comm_->rank(), " steps ", number_,
        ", counted from 0 in the order of create: optimizers that share ranks must be "
        "stepped in the same order on all of them"));
  }
  SHAMPOO_RETURN_IF_ERROR(RequireHeads());
  cause_ = -1;
  int cause = -1;  // the lowest rank that failed; rather one that has lost a collective, and rather one that is no echo
  for (int rank = 0; rank < comm_->world(); ++rank) {
    const Head of_rank = HeadOf(rank);
    flags->skip = flags->skip || of_rank.skip != 0;
    flags->doubt = flags->doubt || of_rank.doubt != 0;
    if (of_rank.code == 0) continue;
    const auto weight = [](const Head& of) {
      return of.code == static_cast<int64_t>(Code::kComm) ? 2 : of.echo != 0 ? 0 : 1;
    };
    if (cause < 0 || weight(of_rank) > weight(HeadOf(cause))) cause = rank;
  }
  if (cause >= 0) {
    flags->echo = HeadOf(cause).echo != 0;
    cause_ = cause;
    own_text_ = own.message();
    const auto code = static_cast<Code>(HeadOf(cause).code);
    // A rank that tells of a lost collective makes no other exchange.
    return text_later && code != Code::kComm ? Status(code, "") : FetchText();
  }
  for (int rank = 1; rank < comm_->world(); ++rank) {
    if (HeadOf(rank).scalars == HeadOf(0).scalars) continue;
    return Invalid("shard rank ", rank,
                   " has another learning rate, gradient_scale or other changed hyper-parameter than shard rank 0",
                   kNothingChanged, ". Set them alike on all ranks");
  }
  SHAMPOO_RETURN_IF_ERROR(CompareGradients(step_of_group.size(), gradients));
  return CompareSteps(step_of_group);
}

Status ShardStatus::CompareSteps(std::span<int64_t> step_of_group) {
  for (size_t g = 0; g < step_of_group.size(); ++g) {
    int first = -1;
    for (int rank = 0; rank < comm_->world(); ++rank) {
      int64_t step = 0;
      std::memcpy(&step, SegmentOf(rank) + sizeof(Head) + g * sizeof step, sizeof step);
      SHAMPOO_RETURN_IF_ERROR(RequireReceived(comm_.get(), {"step of a group", rank, step}, 0, kStepLimit));
      if (step == 0) continue;
      if (first < 0) {
        first = rank;
        step_of_group[g] = step;
      } else if (step != step_of_group[g]) {
        return WrongState("shard rank ", rank, " is at step ", step, " of group ", g, " and shard rank ", first,
                          " at step ", step_of_group[g], kNothingChanged,
                          ". Give all ranks the state of the same step, and step them alike");
      }
    }
  }
  return {};
}

Status ShardStatus::CompareGradients(size_t groups, std::span<char> gradients) {
  for (size_t p = 0; p < gradients.size(); ++p) {
    int with = -1;
    int without = -1;
    for (int rank = 0; rank < comm_->world(); ++rank) {
      const char gradient = SegmentOf(rank)[sizeof(Head) + groups * sizeof(int64_t) + p];
      SHAMPOO_RETURN_IF_ERROR(RequireReceived(
          comm_.get(), {"state of a gradient", rank, static_cast<unsigned char>(gradient)}, kNothing, kGivenWithCopy));
      if (IsGiven(gradient)) with = rank;
      if (gradient == kMissing) without = rank;
      gradients[p] = std::max(gradients[p], gradient);
    }
    if (with < 0 || without < 0) continue;
    return Invalid("shard rank ", with, " has a gradient for parameter \"", names_[p], "\" and shard rank ", without,
                   " has none", kNothingChanged, ". Bind gradients for the same parameters on all ranks");
  }
  return {};
}

}  // namespace shampoo
