// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/comm/round.h"

#include <algorithm>
#include <utility>

#include "core/comm/agreement.h"
#include "core/comm/received.h"

namespace shampoo {
namespace {

int64_t OptimizerOf(int64_t place) { return place >> 32; }
int64_t RoundOf(int64_t place) { return place & 0xffffffff; }

// Returns the priority of a rank's failure: all ranks return the failure with the highest priority. A failed collective
// comes first: the rank on which the collective failed joins only this round and the exchange of messages after it, so
// this round must report the failure to all ranks. A forwarded failure comes last, because its report has the least
// detail.
int FailurePriority(const RoundHeader& header) {
  if (header.code == static_cast<int32_t>(Code::kComm)) return 2;
  return (header.flags & kFailureIsForwarded) != 0 ? 0 : 1;
}

}  // namespace

Rounds::Rounds(std::shared_ptr<Communicator> comm, int32_t optimizer)
    : comm_(std::move(comm)),
      optimizer_(optimizer),
      headers_(static_cast<size_t>(comm_->world())),
      texts_(static_cast<size_t>(comm_->world()) * kTextBytes) {}

RoundHeader Rounds::HeaderFor(int64_t round, const Status& own, uint32_t flags) const {
  return {static_cast<int32_t>(own.code()), flags, PlaceOfRound(optimizer_, round)};
}

Status Rounds::CheckHeaders(const RoundHeader& own) {
  Communicator* const comm = comm_.get();
  for (int rank = 0; rank < comm->world(); ++rank) {
    SHAMPOO_RETURN_IF_ERROR(CheckOptimizerIdOrAbort(comm, rank, OptimizerOf(header(rank).place)));
    SHAMPOO_RETURN_IF_ERROR(
        CheckReceivedOrAbort(comm, {"round number", rank, RoundOf(header(rank).place)}, 0, kMaxRounds - 1));
  }
  for (int rank = 0; rank < comm->world(); ++rank) {
    if (header(rank).place == own.place) continue;
    return comm->FailTogether(RoundsDiffer(*comm, rank, header(rank).place, own.place));
  }
  for (int rank = 0; rank < comm->world(); ++rank) {
    SHAMPOO_RETURN_IF_ERROR(CheckCodeOrAbort(comm, rank, header(rank).code));
    SHAMPOO_RETURN_IF_ERROR(CheckReceivedOrAbort(comm, {"set of flags", rank, header(rank).flags}, 0, kRoundFlags));
  }
  return {};
}

Status Rounds::GatherCodes(const Status& own, uint32_t flags) {
  constexpr int64_t kFlagsUnit = 256;  // larger than all codes
  // Unless host buffers are copied through device memory (Staging), AllGatherInt() allocates nothing. A rank that is
  // out of memory can therefore report its error.
  SHAMPOO_RETURN_IF_ERROR(comm_->AllGatherInt(flags * kFlagsUnit + static_cast<int64_t>(own.code())));
  for (int rank = 0; rank < comm_->world(); ++rank) {
    const int64_t code = comm_->GatheredInt(rank) % kFlagsUnit;
    const int64_t flags_of_rank = comm_->GatheredInt(rank) / kFlagsUnit;
    SHAMPOO_RETURN_IF_ERROR(CheckCodeOrAbort(comm_.get(), rank, code));
    SHAMPOO_RETURN_IF_ERROR(CheckReceivedOrAbort(comm_.get(), {"set of flags", rank, flags_of_rank}, 0, kRoundFlags));
    headers_[static_cast<size_t>(rank)] = {static_cast<int32_t>(code), static_cast<uint32_t>(flags_of_rank), 0};
  }
  return {};
}

uint32_t Rounds::AnyFlags() const {
  uint32_t any = 0;
  for (const RoundHeader& header : headers_) any |= header.flags;
  return any;
}

bool Rounds::AllExport() const {
  return std::all_of(headers_.begin(), headers_.end(), [](const RoundHeader& header) { return header.exports(); });
}

RoundFailure Rounds::FindFailure() const {
  RoundFailure failure;
  failure.on_all_ranks = true;
  for (int rank = 0; rank < comm_->world(); ++rank) {
    if (header(rank).code == 0) {
      failure.on_all_ranks = false;
    } else if (!failure.found() || FailurePriority(header(rank)) > FailurePriority(header(failure.rank))) {
      failure.rank = rank;
    }
  }
  if (!failure.found()) return failure;
  failure.code = static_cast<Code>(header(failure.rank).code);
  failure.is_forwarded = (header(failure.rank).flags & kFailureIsForwarded) != 0;
  return failure;
}

Status Rounds::FetchError(const RoundFailure& failure, const std::string& own_text) {
  SHAMPOO_RETURN_IF_ERROR(GatherTexts(comm_.get(), own_text, texts_));
  std::string text = TextIn(texts_, failure.rank);
  // The message of a failed collective already names the rank on which the collective failed.
  if (failure.code == Code::kComm && !text.empty()) return comm_->FailTogether(Status(failure.code, std::move(text)));
  Status error(failure.code, FailureText(*comm_, failure.rank, text));
  return failure.code == Code::kComm ? comm_->FailTogether(std::move(error)) : std::move(error);
}

Status RoundsDiffer(const Communicator& comm, int other_rank, int64_t other_place, int64_t own_place) {
  return CommFailed(comm.rank_name(), " ", other_rank, " is at exchange ", RoundOf(other_place),
                    " of a step of optimizer ", OptimizerOf(other_place), ", and ", comm.rank_name(), " ", comm.rank(),
                    " is at exchange ", RoundOf(own_place), " of a step of optimizer ", OptimizerOf(own_place),
                    kStepInTheSameOrder);
}

}  // namespace shampoo
