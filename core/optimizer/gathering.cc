// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/optimizer/gathering.h"

#include <algorithm>
#include <cstring>

#include "core/comm/agreement.h"
#include "core/comm/received.h"

namespace shampoo {
namespace {

// visit(rank, where that rank's bytes begin)
template <typename Visit>
void ForEachPair(std::span<const size_t> bytes, Visit&& visit) {
  size_t at = 0;
  for (size_t rank = 0; rank < bytes.size(); ++rank) {
    visit(rank, at);
    at += bytes[rank];
  }
}

}  // namespace

Gathering::Gathering(const PlanData& plan, std::shared_ptr<Communicator> comm, int32_t number)
    : plan_(plan),
      comm_(std::move(comm)),
      number_(number),
      replicas_(static_cast<size_t>(plan.placement.replica_world)),
      rounds_(PlanRounds(plan)) {}

Status Gathering::Create(const PlanData& plan, std::shared_ptr<Communicator> comm, int32_t number,
                         const HostAllocator& allocator, std::unique_ptr<Gathering>* out) {
  std::unique_ptr<Gathering> made(new Gathering(plan, std::move(comm), number));
  const GatherBytes& bytes = plan.gather_bytes();
  const auto allocate = [&](const char* what, int64_t size, Allocation* allocation) -> Status {
    SHAMPOO_RETURN_IF_ERROR(Allocation::Create(allocator, size, what, allocation));
    std::fill_n(allocation->data(), size, char{0});  // no page fault in a step, and nothing unknown is sent
    return {};
  };
  SHAMPOO_RETURN_IF_ERROR(allocate("buffer of shards", bytes.held, &made->held_));
  SHAMPOO_RETURN_IF_ERROR(allocate("buffer of owned parts", bytes.owned, &made->owned_));
  SHAMPOO_RETURN_IF_ERROR(allocate("buffer of whole blocks", bytes.whole, &made->whole_));
  if (!made->comm_->has_all_to_all()) {
    SHAMPOO_RETURN_IF_ERROR(allocate("buffer of the all-gather", bytes.by_all_gather, &made->by_all_gather_));
  }
  size_t parts = 0;
  for (const GatherRound& round : made->rounds_) parts = std::max({parts, round.held.size(), round.owned.size()});
  made->copies_.reserve(2 * parts);  // gradient and parameter
  *out = std::move(made);
  return {};
}

Status Gathering::Collect(size_t index, CpuBackend* backend, std::span<const Buffers> buffers,
                          std::span<const char> takes_part) {
  const GatherRound& round = rounds_[index];
  copies_.clear();
  for (const BlockPart& part : round.held) {
    const Block& block = BlockOf(part);
    const auto p = static_cast<size_t>(block.param);
    if (!part.collected || takes_part[p] == 0) continue;
    const auto copy = [&](const void* from, int64_t at, Dtype dtype) {
      copies_.push_back({PartOf(part), SliceCopy::Way::kHeldToPacked, from, held_.data() + at, SizeOf(dtype)});
    };
    copy(buffers[p].grad, part.gradient_at, DescOf(block).grad_dtype);
    copy(buffers[p].param, part.param_at, DescOf(block).param_dtype);
  }
  backend->CopySlices(copies_);
  SHAMPOO_RETURN_IF_ERROR(ExchangePairs(round.collect, {0, PlaceOfCollect(index)}, held_.data(), owned_.data(), {}));
  UnpackCollected(round, backend, takes_part);
  return {};
}

Status Gathering::PassCollect(size_t round) {
  return ExchangePairs(rounds_[round].collect, {0, PlaceOfCollect(round)}, held_.data(), owned_.data(), {});
}

// visit(part, its block, that block whole) for the parts of owned blocks that take part in the step.
template <typename Visit>
void Gathering::ForEachOwned(const GatherRound& round, std::span<const char> takes_part, Visit&& visit) const {
  auto whole = round.whole.begin();  // in the same order
  for (const BlockPart& part : round.owned) {
    while (whole->block != part.block) ++whole;
    const Block& block = BlockOf(part);
    if (takes_part[static_cast<size_t>(block.param)] != 0) visit(part, block, *whole);
  }
}

void Gathering::UnpackCollected(const GatherRound& round, CpuBackend* backend, std::span<const char> takes_part) {
  copies_.clear();
  ForEachOwned(round, takes_part, [&](const BlockPart& part, const Block& block, const WholeBlock& whole) {
    if (!part.collected) return;
    const auto copy = [&](int64_t at, char* to, Dtype dtype) {
      copies_.push_back({PartOf(part), SliceCopy::Way::kPackedToBlock, owned_.data() + at, to, SizeOf(dtype)});
    };
    copy(part.gradient_at, GradientOf(whole), DescOf(block).grad_dtype);
    copy(part.param_at, ParamOf(whole), DescOf(block).param_dtype);
  });
  backend->CopySlices(copies_);
}

Status Gathering::Deliver(size_t index, CpuBackend* backend, std::span<const char> takes_part,
                          std::span<const char> update_skipped, char* arrived) {
  const GatherRound& round = rounds_[index];
  copies_.clear();
  ForEachOwned(round, takes_part, [&](const BlockPart& part, const Block& block, const WholeBlock& whole) {
    const bool stands = update_skipped[static_cast<size_t>(part.block)] != 0;
    copies_.push_back({PartOf(part), SliceCopy::Way::kBlockToPacked, stands ? nullptr : GradientOf(whole),
                       owned_.data() + part.update_at, SizeOf(block.exchange_dtype)});
  });
  backend->CopySlices(copies_);
  return ExchangePairs(round.deliver, {0, PlaceOfDeliver(index)}, owned_.data(), arrived, {});
}

// Sends `send` with the header before each rank's part. What a rank tells there is then the failure of all.
Status Gathering::ExchangePairs(const PairTraffic& traffic, const Head& head, char* send, char* recv,
                                const Status& own) {
  ForEachPair(traffic.send, [&](size_t, size_t at) { std::memcpy(send + at, &head, sizeof head); });
  SHAMPOO_RETURN_IF_ERROR(Transfer(traffic, send, recv));
  bool failed = false;
  int stray = -1;
  Status place;
  Status code;
  ForEachPair(traffic.recv, [&](size_t from, size_t at) {
    const auto rank = static_cast<int>(from);
    Head told;
    std::memcpy(&told, recv + at, sizeof told);
    if (place.ok()) {
      place = RequireOptimizer(comm_.get(), rank, told.place >> 32);
    }
    if (told.place != head.place && stray < 0) stray = rank;
    if (code.ok() && stray < 0) code = RequireCode(comm_.get(), rank, told.code);
    failed = failed || told.code != 0;
  });
  SHAMPOO_RETURN_IF_ERROR(std::move(place));
  if (stray >= 0) {
    return comm_->FailTogether(CommFailed("shard rank ", stray, " is at another exchange than shard rank ",
                                          comm_->rank(),
                                          ": optimizers that share ranks must be stepped in the same order on all"));
  }
  SHAMPOO_RETURN_IF_ERROR(std::move(code));
  if (!failed) return {};
  std::vector<std::string> texts;
  SHAMPOO_RETURN_IF_ERROR(GatherTexts(comm_.get(), own.message(), &texts));
  const auto cause = std::find_if(texts.begin(), texts.end(), [](const std::string& text) { return !text.empty(); });
  return comm_->FailTogether(CommFailed(cause == texts.end() ? std::string("a collective failed") : *cause));
}

Status Gathering::Transfer(const PairTraffic& traffic, const char* send, char* recv) {
  if (comm_->has_all_to_all()) return comm_->AllToAll(send, traffic.send, recv, traffic.recv);
  char* const gathered = by_all_gather_.data();
  size_t sent = 0;
  for (const size_t bytes : traffic.send) sent += bytes;
  std::memcpy(gathered + static_cast<size_t>(comm_->rank()) * traffic.segment, send, sent);
  SHAMPOO_RETURN_IF_ERROR(comm_->GatherInPlace(gathered, static_cast<int64_t>(traffic.segment)));
  ForEachPair(traffic.recv, [&](size_t rank, size_t at) {
    std::memcpy(recv + at, gathered + rank * traffic.segment + traffic.recv_at[rank], traffic.recv[rank]);
  });
  return {};
}

void Gathering::TellInCollect(size_t round, const Status& failure) {
  Tell(rounds_[round].collect, PlaceOfCollect(round), held_.data(), owned_.data(), failure);
}

void Gathering::TellInDeliver(size_t round, const Status& failure, char* arrived) {
  Tell(rounds_[round].deliver, PlaceOfDeliver(round), owned_.data(), arrived, failure);
}

void Gathering::Tell(const PairTraffic& traffic, int64_t place, char* send, char* recv, const Status& failure) {
  if (comm_->failed() && !comm_->TakeFailureToTell()) return;
  // This rank has its failure already, whatever comes of it.
  (void)ExchangePairs(traffic, {static_cast<int64_t>(failure.code()), place}, send, recv, failure).ok();
}

}  // namespace shampoo
