// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/backend/backend.h"
#include "core/base/memory.h"
#include "core/comm/communicator.h"
#include "core/plan/gather_rounds.h"
#include "core/plan/plan.h"

namespace shampoo {

// The exchanges by which shards become whole blocks and updates come back, with shard_mode gather. Every shard rank
// makes the same calls.
class Gathering {
 public:
  // number: of this optimizer among those of the communicator.
  static Status Create(const PlanData& plan, std::shared_ptr<Communicator> comm, int32_t number,
                       const HostAllocator& allocator, std::unique_ptr<Gathering>* out);

  size_t RoundIndex(int64_t bucket, int replica) const {
    return static_cast<size_t>(bucket) * replicas_ + static_cast<size_t>(replica);
  }
  size_t rounds() const { return rounds_.size(); }
  const GatherRound& RoundAt(size_t index) const { return rounds_[index]; }

  // A block that was collected, whole: its gradient, in whose place its update is put, and its parameter.
  char* GradientOf(const WholeBlock& block) const { return whole_.data() + block.gradient_at; }
  char* ParamOf(const WholeBlock& block) const { return whole_.data() + block.param_at; }

  // Brings gradients and parameters of a round's blocks to their owners. takes_part: by parameter; others are left out.
  Status Collect(size_t round, Backend* backend, std::span<const Buffers> buffers, std::span<const char> takes_part);
  // Takes part in the collecting of a round, and sends nothing that means anything.
  Status PassCollect(size_t round);
  // Brings updates of a round's blocks to the holders, into `arrived`. stood_still: by block.
  Status Deliver(size_t round, Backend* backend, std::span<const char> takes_part, std::span<const char> stood_still,
                 char* arrived);
  // Where they may arrive if there is one copy of the parameters.
  char* arrived() const { return held_.data(); }

  // Takes part in an exchange to tell of a failure, unless that has been done.
  void TellInCollect(size_t round, const Status& failure);
  void TellInDeliver(size_t round, const Status& failure, char* arrived);

 private:
  struct Head {
    int64_t code;
    int64_t place;  // which optimizer of the communicator, which exchange of its step
  };
  static_assert(sizeof(Head) == kPairHeaderBytes);

  Gathering(const PlanData& plan, std::shared_ptr<Communicator> comm, int32_t number);
  const Block& BlockOf(const BlockPart& part) const { return plan_.blocks[static_cast<size_t>(part.block)]; }
  const ParamDesc& DescOf(const Block& block) const { return plan_.params[static_cast<size_t>(block.param)].desc; }
  PartOfBlock PartOf(const BlockPart& part) const { return {&BlockOf(part), &part.region, part.elements}; }
  int64_t PlaceOfCollect(size_t round) const { return int64_t{number_} << 32 | static_cast<int64_t>(2 * round); }
  int64_t PlaceOfDeliver(size_t round) const { return PlaceOfCollect(round) + 1; }
  template <typename Visit>
  void ForEachOwned(const GatherRound& round, std::span<const char> takes_part, Visit&& visit) const;
  void UnpackCollected(const GatherRound& round, Backend* backend, std::span<const char> takes_part);
  Status ExchangePairs(const PairTraffic& traffic, const Head& head, char* send, char* recv, const Status& own);
  Status Transfer(const PairTraffic& traffic, const char* send, char* recv);
  void Tell(const PairTraffic& traffic, int64_t place, char* send, char* recv, const Status& failure);

  const PlanData& plan_;
  std::shared_ptr<Communicator> comm_;
  int32_t number_;
  size_t replicas_;
  std::vector<GatherRound> rounds_;
  Allocation held_;  // what goes out of this rank's shards; where there is one copy, also updates that come in for them
  Allocation owned_;  // what comes in for this rank's blocks, and updates that go out
  Allocation whole_;
  Allocation by_all_gather_;
  std::vector<PartCopy> copies_;
};

}  // namespace shampoo
