// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/backend/cpu/cpu_backend.h"
#include "core/base/memory.h"
#include "core/comm/round.h"
#include "core/plan/gather_rounds.h"
#include "core/plan/plan.h"

namespace shampoo {

// The exchanges between shard ranks that gather whole blocks and scatter their updates, with shard_mode gather. A round
// is a bucket of blocks of one replica. Every shard rank makes the same calls.
class BlockGather {
 public:
  // optimizer: its number among those of the communicator. The plan and the backend must outlive this object.
  static Status Create(const PlanData& plan, std::shared_ptr<Communicator> comm, int32_t optimizer,
                       const HostAllocator& allocator, CpuBackend* backend, std::unique_ptr<BlockGather>* out);

  size_t RoundIndex(int64_t bucket, int replica) const {
    return static_cast<size_t>(bucket) * replicas_ + static_cast<size_t>(replica);
  }
  size_t round_count() const { return gather_rounds_.size(); }
  const GatherRound& RoundAt(size_t index) const { return gather_rounds_[index]; }

  // A whole block that was collected: its gradient, in whose place its update is put, and its parameter.
  char* GradientOf(const WholeBlock& block) const { return whole_.data() + block.gradient_at; }
  char* ParamOf(const WholeBlock& block) const { return whole_.data() + block.param_at; }
  // By block: the buffers of a whole block that comes to this rank. The addresses stay valid as long as this object.
  const Buffers& BuffersOf(size_t block) const { return buffers_[block]; }
  // Whether the update of a block is to hold a copy of the new parameter.
  void SetCopied(size_t block, bool copied) { buffers_[block].copy = copied ? buffers_[block].out : nullptr; }
  // Where updates arrive if there is one copy of the parameters.
  char* arrived() const { return held_.data(); }

  // Brings gradients and parameters of a round's blocks to their owners. takes_part: by parameter; others are left out.
  Status Collect(size_t round, std::span<const Buffers> buffers, std::span<const char> takes_part);
  // Joins a collect round with placeholder data.
  Status JoinCollect(size_t round);
  // Brings updates of a round's blocks to the holders, into `arrived`. update_skipped: by block.
  Status Deliver(size_t round, std::span<const char> takes_part, std::span<const char> update_skipped, char* arrived);

  // Takes part in an exchange only to report a failure.
  void ReportInCollect(size_t round, const Status& failure);
  void ReportInDeliver(size_t round, const Status& failure, char* arrived);

 private:
  BlockGather(const PlanData& plan, std::shared_ptr<Communicator> comm, int32_t optimizer, CpuBackend* backend);
  const ParamDesc& DescOf(const Block& block) const { return plan_.param(block).desc; }
  SliceOfBlock SliceOf(const ShardSlice& part) const { return {&plan_.block(part.block), &part.region, part.elements}; }
  template <typename Visit>
  void ForEachOwned(const GatherRound& round, std::span<const char> takes_part, Visit&& visit) const;
  void UnpackCollected(const GatherRound& round, std::span<const char> takes_part);
  Status ExchangePairs(const PairTraffic& traffic, int64_t round, char* send, char* recv, const Status& own);
  Status Transfer(const PairTraffic& traffic, const char* send, char* recv);
  void Report(const PairTraffic& traffic, int64_t round, char* send, char* recv, const Status& failure);

  const PlanData& plan_;
  Rounds rounds_;
  CpuBackend* backend_;
  size_t replicas_;
  std::vector<GatherRound> gather_rounds_;
  Allocation held_;  // sent from this rank's shards; with one copy of the parameters, also updates that arrive for them
  Allocation owned_;  // received for this rank's blocks, and their updates to send
  Allocation whole_;
  Allocation by_all_gather_;
  std::vector<SliceCopy> copies_;
  std::vector<Buffers> buffers_;     // by block
  std::vector<size_t> received_at_;  // by rank: where its bytes begin
};

}  // namespace shampoo
