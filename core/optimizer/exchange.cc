// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/optimizer/exchange.h"

#include <algorithm>
#include <cstring>

#include "core/comm/agreement.h"
#include "core/comm/received.h"
#include "core/plan/block.h"

namespace shampoo {

Status FailureOfRanks(Communicator* comm, std::span<const int64_t> codes, std::span<const char> echoes,
                      std::span<const std::string> texts) {
  for (size_t rank = 0; rank < codes.size(); ++rank) {
    SHAMPOO_RETURN_IF_ERROR(RequireCode(comm, static_cast<int>(rank), codes[rank]));
  }
  const size_t none = codes.size();
  size_t cause = none;
  bool all = true;
  for (size_t rank = 0; rank < codes.size(); ++rank) {
    if (codes[rank] == 0) {
      all = false;
      continue;
    }
    const auto is_echo = [&](size_t of) { return !echoes.empty() && echoes[of] != 0; };
    if (cause == none || (is_echo(cause) && !is_echo(rank))) cause = rank;
  }
  const auto code = static_cast<Code>(codes[cause]);
  std::string text = TextOfFailure(*comm, static_cast<int>(cause), texts[cause]);
  if (code == Code::kComm) return comm->FailTogether(Status(code, std::move(text)));
  const size_t promise = all ? std::string::npos : text.find(kNothingChanged);
  if (promise != std::string::npos) text.erase(promise, std::char_traits<char>::length(kNothingChanged));
  const char* const others =
      all ? ""
          : ". Other ranks could not see this and had begun the step: parameters are as they were, "
            "and the state of the blocks that those ranks own has taken this step's gradient in";
  return Status(code, Cat("rank ", cause, ": ", text, others));
}

Status StepsDiffer(int rank, int64_t step, int64_t step_of_first) {
  return WrongState("rank ", rank, " is at step ", step, " and rank 0 at step ", step_of_first,
                    ": parameters are as they were. Give all ranks the state of the same step, and step them alike");
}

Status ScalarsDiffer(int rank) {
  return Invalid("rank ", rank,
                 " has another learning rate, gradient_scale or other changed hyper-parameter than rank "
                 "0: parameters are as they were. Set them alike on all ranks");
}

Exchange::Exchange(const PlanData& plan, std::shared_ptr<Communicator> comm, int32_t number)
    : comm_(std::move(comm)),
      number_(number),
      segment_bytes_(plan.bucket_segment_bytes),
      headers_(static_cast<size_t>(plan.placement.replica_world)) {
  for (const Block& block : plan.blocks) factors_ += block.factor_count();
}

Status Exchange::Create(const PlanData& plan, std::shared_ptr<Communicator> comm, int32_t number,
                        const HostAllocator& allocator, std::unique_ptr<Exchange>* out) {
  std::unique_ptr<Exchange> made(new Exchange(plan, std::move(comm), number));
  const int64_t bytes = plan.ReplicaBufferBytes();
  SHAMPOO_RETURN_IF_ERROR(Allocation::Create(allocator, bytes, "gather buffer", &made->buffer_));
  std::fill_n(made->buffer_.data(), bytes, char{0});  // no page fault in a step, and no padding of unknown content
  *out = std::move(made);
  return {};
}

Status Exchange::Gather(int64_t bucket, SegmentHeader own) {
  Status status = GatherOnce(bucket, own);
  // The others may be at the next exchange of this step already.
  if (!status.ok() && bucket + 1 < buckets()) Tell(bucket + 1, status);
  return status;
}

Status Exchange::Pass(const Status& verdict) {
  constexpr int64_t kNext = 1;  // it is in the first that a step may end early
  if (buckets() <= kNext || comm_->failed()) return {};
  SegmentHeader header{};
  header.code = static_cast<int64_t>(verdict.code() == Code::kComm ? verdict.code() : Code::kOk);
  header.overdue_root = -1;
  SHAMPOO_RETURN_IF_ERROR(GatherOnce(kNext, header));
  return CheckFailures(verdict);
}

Status Exchange::GatherOnce(int64_t bucket, SegmentHeader own) {
  own.place = PlaceInOrder(bucket);
  const int64_t bytes = segment_bytes_[static_cast<size_t>(bucket)];
  char* const buffer = buffer_.data();
  std::memcpy(buffer + comm_->rank() * bytes, &own, sizeof own);
  SHAMPOO_RETURN_IF_ERROR(comm_->GatherInPlace(buffer, bytes));
  for (size_t rank = 0; rank < headers_.size(); ++rank) {
    std::memcpy(&headers_[rank], buffer + static_cast<int64_t>(rank) * bytes, sizeof own);
    SHAMPOO_RETURN_IF_ERROR(RequirePlace(static_cast<int>(rank)));
  }
  const auto of_other = std::find_if(headers_.begin(), headers_.end(),
                                     [&own](const SegmentHeader& header) { return header.place != own.place; });
  if (of_other == headers_.end()) return RequireHeaders();
  return comm_->FailTogether(CommFailed(
      "rank ", of_other - headers_.begin(), " is at exchange ", of_other->place & 0xffffffff, " of optimizer ",
      of_other->place >> 32, " where rank ", comm_->rank(), " is at ", bucket, " of ", number_,
      ", counted from 0 in the order of create: optimizers that share ranks must be stepped in the same order "
      "on all of them"));
}

// Whether some optimizer of the communicator has such an exchange.
Status Exchange::RequirePlace(int rank) {
  const int64_t place = HeaderOf(rank).place;
  Communicator* const comm = comm_.get();
  SHAMPOO_RETURN_IF_ERROR(RequireOptimizer(comm, rank, place >> 32));
  return RequireReceived(comm, {"number of an exchange", rank, place & 0xffffffff}, 0, kMostBlocks);
}

// Whether all other numbers are such as ranks send for this exchange.
Status Exchange::RequireHeaders() {
  Communicator* const comm = comm_.get();
  for (int rank = 0; rank < comm->world(); ++rank) {
    const SegmentHeader& header = HeaderOf(rank);
    SHAMPOO_RETURN_IF_ERROR(RequireCode(comm, rank, header.code));
    SHAMPOO_RETURN_IF_ERROR(RequireReceived(comm, {"flag of a forwarded failure", rank, header.echo}, 0, 1));
    SHAMPOO_RETURN_IF_ERROR(
        RequireReceived(comm, {"number of a factor matrix", rank, header.overdue_root}, -1, factors_ - 1));
  }
  return {};
}

void Exchange::Tell(int64_t bucket, const Status& failure) {
  if (comm_->failed() && !comm_->TakeFailureToTell()) return;
  SegmentHeader header{};
  header.code = static_cast<int64_t>(failure.code());
  header.overdue_root = -1;
  // This rank has its failure already, whatever comes of it.
  if (GatherOnce(bucket, header).ok()) (void)CheckFailures(failure).ok();
}

Status Exchange::CheckFailures(const Status& own) {
  if (std::all_of(headers_.begin(), headers_.end(), [](const SegmentHeader& header) { return header.code == 0; })) {
    return {};
  }
  std::vector<std::string> texts;
  SHAMPOO_RETURN_IF_ERROR(GatherTexts(comm_.get(), own.message(), &texts));
  std::vector<int64_t> codes;
  std::vector<char> echoes;
  for (const SegmentHeader& header : headers_) {
    codes.push_back(header.code);
    echoes.push_back(header.echo != 0 ? 1 : 0);
  }
  return FailureOfRanks(comm_.get(), codes, echoes, texts);
}

Status Exchange::CompareHeaders() const {
  const SegmentHeader& first = headers_[0];
  for (size_t rank = 1; rank < headers_.size(); ++rank) {
    const SegmentHeader& header = headers_[rank];
    if (header.step != first.step) return StepsDiffer(static_cast<int>(rank), header.step, first.step);
    if (header.scalars != first.scalars) return ScalarsDiffer(static_cast<int>(rank));
  }
  return {};
}

}  // namespace shampoo
