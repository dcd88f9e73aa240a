// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/block_gather.h"

#include <algorithm>
#include <cstring>

#include "core/comm/agreement.h"
#include "core/step/shard_agreement.h"

namespace shampoo {
namespace {

// Calls visit(rank, offset) for each rank. A buffer holds bytes[rank] bytes for each rank, in the order of the ranks,
// and `offset` is the position of the rank's bytes in that buffer.
template <typename Visit>
void ForEachPair(std::span<const size_t> bytes, Visit&& visit) {
  size_t at = 0;
  for (size_t rank = 0; rank < bytes.size(); ++rank) {
    visit(rank, at);
    at += bytes[rank];
  }
}

static_assert(sizeof(RoundHeader) == kPairHeaderBytes);

// Return the numbers of the two rounds of a pass. They begin at kRound + 1, because every agreement between shard ranks
// has the number kRound.
int64_t CollectRound(size_t pass) { return ShardRounds::kRound + 1 + 2 * static_cast<int64_t>(pass); }
int64_t DeliverRound(size_t pass) { return CollectRound(pass) + 1; }

}  // namespace

BlockGather::BlockGather(const PlanData& plan, std::shared_ptr<Communicator> comm, int32_t optimizer,
                         CpuBackend* backend)
    : plan_(plan),
      rounds_(std::move(comm), optimizer),
      backend_(backend),
      replicas_(static_cast<size_t>(plan.placement.replica_world)),
      passes_(PlanGatherPasses(plan)),
      received_at_(static_cast<size_t>(rounds_.comm()->world())) {}

Status BlockGather::Create(const PlanData& plan, std::shared_ptr<Communicator> comm, int32_t optimizer,
                           const HostAllocator& allocator, CpuBackend* backend, std::unique_ptr<BlockGather>* out) {
  std::unique_ptr<BlockGather> made(new BlockGather(plan, std::move(comm), optimizer, backend));
  const GatherBytes& bytes = plan.gather_bytes();
  const auto allocate = [&](const char* what, int64_t size, Allocation* allocation) -> Status {
    SHAMPOO_RETURN_IF_ERROR(Allocation::Create(allocator, size, what, allocation));
    // The memory is written here, so that steps have no page faults and never send uninitialized bytes.
    std::fill_n(allocation->data(), size, char{0});
    return {};
  };
  SHAMPOO_RETURN_IF_ERROR(allocate("buffer of shards", bytes.held, &made->held_));
  SHAMPOO_RETURN_IF_ERROR(allocate("buffer of owned slices", bytes.owned, &made->owned_));
  SHAMPOO_RETURN_IF_ERROR(allocate("buffer of whole blocks", bytes.whole, &made->whole_));
  if (!made->rounds_.comm()->has_all_to_all()) {
    SHAMPOO_RETURN_IF_ERROR(allocate("buffer of the all-gather", bytes.by_all_gather, &made->by_all_gather_));
  }
  size_t slices = 0;
  for (const GatherPass& pass : made->passes_) slices = std::max({slices, pass.held.size(), pass.owned.size()});
  made->copies_.reserve(2 * slices);  // a gradient and a parameter per slice
  made->buffers_.resize(plan.blocks.size());
  for (const GatherPass& pass : made->passes_) {
    for (const WholeBlock& whole : pass.whole) {
      char* const gradient = made->GradientOf(whole);
      made->buffers_[static_cast<size_t>(whole.block)] = {made->ParamOf(whole), gradient, gradient, nullptr};
    }
  }
  *out = std::move(made);
  return {};
}

Status BlockGather::Collect(size_t index, std::span<const Buffers> buffers, std::span<const char> takes_part) {
  const GatherPass& pass = passes_[index];
  copies_.clear();
  for (const ShardSlice& slice : pass.held) {
    const Block& block = plan_.block(slice.block);
    const auto p = static_cast<size_t>(block.param);
    if (!slice.collected || takes_part[p] == 0) continue;
    const auto copy = [&](const void* from, int64_t at, Dtype dtype) {
      copies_.push_back({SliceOf(slice), SliceCopy::Way::kHeldToPacked, from, held_.data() + at, SizeOf(dtype)});
    };
    copy(buffers[p].grad, slice.gradient_at, DescOf(block).grad_dtype);
    copy(buffers[p].param, slice.param_at, DescOf(block).param_dtype);
  }
  backend_->CopySlices(copies_);
  SHAMPOO_RETURN_IF_ERROR(ExchangePairs(pass.collect, CollectRound(index), held_.data(), owned_.data(), {}));
  UnpackCollected(pass, takes_part);
  return {};
}

Status BlockGather::JoinCollect(size_t pass) {
  return ExchangePairs(passes_[pass].collect, CollectRound(pass), held_.data(), owned_.data(), {});
}

// Calls visit(slice, block, whole block) for each slice of the owned blocks that take part in the step.
template <typename Visit>
void BlockGather::ForEachOwned(const GatherPass& pass, std::span<const char> takes_part, Visit&& visit) const {
  auto whole = pass.whole.begin();  // pass.whole and pass.owned list the blocks in the same order
  for (const ShardSlice& slice : pass.owned) {
    while (whole->block != slice.block) ++whole;
    const Block& block = plan_.block(slice.block);
    if (takes_part[static_cast<size_t>(block.param)] != 0) visit(slice, block, *whole);
  }
}

void BlockGather::UnpackCollected(const GatherPass& pass, std::span<const char> takes_part) {
  copies_.clear();
  ForEachOwned(pass, takes_part, [&](const ShardSlice& slice, const Block& block, const WholeBlock& whole) {
    if (!slice.collected) return;
    const auto copy = [&](int64_t at, char* to, Dtype dtype) {
      copies_.push_back({SliceOf(slice), SliceCopy::Way::kPackedToBlock, owned_.data() + at, to, SizeOf(dtype)});
    };
    copy(slice.gradient_at, GradientOf(whole), DescOf(block).grad_dtype);
    copy(slice.param_at, ParamOf(whole), DescOf(block).param_dtype);
  });
  backend_->CopySlices(copies_);
}

Status BlockGather::Deliver(size_t index, std::span<const char> takes_part, std::span<const char> update_skipped,
                            char* arrived) {
  const GatherPass& pass = passes_[index];
  copies_.clear();
  ForEachOwned(pass, takes_part, [&](const ShardSlice& slice, const Block& block, const WholeBlock& whole) {
    const bool skipped = update_skipped[static_cast<size_t>(slice.block)] != 0;
    copies_.push_back({SliceOf(slice), SliceCopy::Way::kBlockToPacked, skipped ? nullptr : GradientOf(whole),
                       owned_.data() + slice.update_at, SizeOf(block.exchange_dtype)});
  });
  backend_->CopySlices(copies_);
  return ExchangePairs(pass.deliver, DeliverRound(index), owned_.data(), arrived, {});
}

// Makes a round: sends a header and then packed bytes to each rank, and receives a header and packed bytes from each
// rank. If a rank reports a failure, the call fails on all ranks with kComm and the message of this failure. own: the
// failure that this rank reports, or success.
Status BlockGather::ExchangePairs(const PairTraffic& traffic, int64_t round, char* send, char* recv,
                                  const Status& own) {
  const RoundHeader header = rounds_.HeaderFor(round, own, 0);
  ForEachPair(traffic.send, [&](size_t, size_t at) { std::memcpy(send + at, &header, sizeof header); });
  SHAMPOO_RETURN_IF_ERROR(Transfer(traffic, send, recv));
  ForEachPair(traffic.recv, [&](size_t rank, size_t at) { received_at_[rank] = at; });
  SHAMPOO_RETURN_IF_ERROR(
      rounds_.Receive(header, [&](int rank) { return recv + received_at_[static_cast<size_t>(rank)]; }));
  const RoundFailure failure = rounds_.FindFailure();
  if (!failure.found()) return {};
  // Some ranks may have written parameters of earlier buckets, so the communicator fails permanently.
  const Status error = rounds_.FetchError(failure, own.message());
  return rounds_.comm()->FailTogether(CommFailed(error.message()));
}

Status BlockGather::Transfer(const PairTraffic& traffic, const char* send, char* recv) {
  if (rounds_.comm()->has_all_to_all()) return rounds_.comm()->AllToAll(send, traffic.send, recv, traffic.recv);
  char* const gathered = by_all_gather_.data();
  size_t sent = 0;
  for (const size_t bytes : traffic.send) sent += bytes;
  std::memcpy(gathered + static_cast<size_t>(rounds_.comm()->rank()) * traffic.segment, send, sent);
  SHAMPOO_RETURN_IF_ERROR(rounds_.comm()->GatherInPlace(gathered, static_cast<int64_t>(traffic.segment)));
  ForEachPair(traffic.recv, [&](size_t rank, size_t at) {
    std::memcpy(recv + at, gathered + rank * traffic.segment + traffic.recv_at[rank], traffic.recv[rank]);
  });
  return {};
}

void BlockGather::ReportInCollect(size_t pass, const Status& failure) {
  Report(passes_[pass].collect, CollectRound(pass), held_.data(), owned_.data(), failure);
}

void BlockGather::ReportInDeliver(size_t pass, const Status& failure, char* arrived) {
  Report(passes_[pass].deliver, DeliverRound(pass), owned_.data(), arrived, failure);
}

void BlockGather::Report(const PairTraffic& traffic, int64_t round, char* send, char* recv, const Status& failure) {
  // This rank returns its own failure, so the result of the round is ignored.
  rounds_.Report([&] { (void)ExchangePairs(traffic, round, send, recv, failure).ok(); });
}

}  // namespace shampoo
