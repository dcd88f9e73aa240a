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
#include "core/plan/gather_passes.h"
#include "core/plan/plan.h"

namespace shampoo {

// Makes the exchanges between shard ranks with shard_mode=gather: whole blocks are gathered at their owners, and
// updates are sent back to the shard ranks. A pass (GatherPass) handles the blocks of one bucket whose owners are in
// one replica. It has two rounds (core/comm/round.h): collect and deliver. Every shard rank makes the same calls.
class BlockGather {
 public:
  // optimizer: the number from Communicator::TakeOptimizerId(). The plan and the backend must outlive this object.
  static Status Create(const PlanData& plan, std::shared_ptr<Communicator> comm, int32_t optimizer,
                       const HostAllocator& allocator, CpuBackend* backend, std::unique_ptr<BlockGather>* out);

  size_t PassIndex(int64_t bucket, int replica) const {
    return static_cast<size_t>(bucket) * replicas_ + static_cast<size_t>(replica);
  }
  size_t pass_count() const { return passes_.size(); }
  const GatherPass& PassAt(size_t index) const { return passes_[index]; }

  // Return the collected gradient and parameter of a whole block. The step overwrites the gradient with the update.
  char* GradientOf(const WholeBlock& block) const { return whole_.data() + block.gradient_at; }
  char* ParamOf(const WholeBlock& block) const { return whole_.data() + block.param_at; }
  // Returns the addresses of a whole block in the memory of this object. All of them are nullptr if this rank does not
  // collect the block. block: index in the plan. The result stays at the same address as long as this object exists.
  const Buffers& BuffersOf(size_t block) const { return buffers_[block]; }
  // Sets whether the step of a block writes a copy of the new parameter.
  void SetCopied(size_t block, bool copied) { buffers_[block].copy = copied ? buffers_[block].out : nullptr; }
  // Returns the memory that receives the updates for this rank's shards. Only for plans with one replica.
  char* arrived() const { return held_.data(); }

  // Sends gradients and parameters of the blocks of a pass to the owners of the blocks. takes_part: a flag for each
  // parameter; the blocks of parameters whose flag is 0 are left out.
  Status Collect(size_t pass, std::span<const Buffers> buffers, std::span<const char> takes_part);
  // Joins the collect round of a pass with placeholder data.
  Status JoinCollect(size_t pass);
  // Sends updates of the blocks of a pass to the ranks that hold elements of the blocks. `arrived` receives the updates
  // for this rank's shards. update_skipped: by block, whether its update was skipped.
  Status Deliver(size_t pass, std::span<const char> takes_part, std::span<const char> update_skipped, char* arrived);

  // Join a round only to report a failure of this rank.
  void ReportInCollect(size_t pass, const Status& failure);
  void ReportInDeliver(size_t pass, const Status& failure, char* arrived);

 private:
  BlockGather(const PlanData& plan, std::shared_ptr<Communicator> comm, int32_t optimizer, CpuBackend* backend);
  const ParamDesc& DescOf(const Block& block) const { return plan_.param(block).desc; }
  SliceOfBlock SliceOf(const ShardSlice& slice) const {
    return {&plan_.block(slice.block), &slice.region, slice.elements};
  }
  template <typename Visit>
  void ForEachOwned(const GatherPass& pass, std::span<const char> takes_part, Visit&& visit) const;
  void UnpackCollected(const GatherPass& pass, std::span<const char> takes_part);
  Status ExchangePairs(const PairTraffic& traffic, int64_t round, char* send, char* recv, const Status& own);
  Status Transfer(const PairTraffic& traffic, const char* send, char* recv);
  void Report(const PairTraffic& traffic, int64_t round, char* send, char* recv, const Status& failure);

  const PlanData& plan_;
  Rounds rounds_;
  CpuBackend* backend_;
  size_t replicas_;
  std::vector<GatherPass> passes_;
  // The packed slices that this rank sends: gradients and parameters of its shards. If there is only one replica, this
  // memory also receives the updates of these shards.
  Allocation held_;
  // The packed slices of the blocks that this rank owns: received gradients and parameters, and updates to send.
  Allocation owned_;
  Allocation whole_;          // the gradients and parameters of whole blocks
  Allocation by_all_gather_;  // the all-gather's buffer if the communicator has no all-to-all
  std::vector<SliceCopy> copies_;
  std::vector<Buffers> buffers_;     // by block
  std::vector<size_t> received_at_;  // by rank: where the bytes from this rank begin in the receive buffer
};

}  // namespace shampoo
