// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Test fixtures: ranks that take part in the agreements and exchanges of a step, but cannot make the step itself.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/step/replica_exchange.h"
#include "core/step/shard_agreement.h"
#include "tests/core/context_fixture.h"

namespace shampoo {

// Byte offsets in the segment that a shard rank sends in an agreement, for an optimizer with one group.
// kStepInSegment: the step of the group. kGradientsInSegment: one byte for each parameter, the state of its gradient.
constexpr size_t kStepInSegment = sizeof(ShardHeader);
constexpr size_t kGradientsInSegment = kStepInSegment + sizeof(int64_t);

// A shard rank whose parameters have the shapes `shapes`. If a shape has no elements, the elements of the parameter are
// on other ranks.
struct AgreeingShard : ContextFixture {
  AgreeingShard(const std::shared_ptr<Communicator>& comm, const std::vector<std::vector<int64_t>>& shapes)
      : ContextFixture("max_preconditioner_dim=4", shapes),
        rounds(inputs(), comm, comm->TakeOptimizerId(), BoundScalars::kOnHost) {
    comm->SetRankName("shard rank");
    Ok(List());
  }
  StepDecision Agree(StepDecision decision = {}) {
    rounds.Agree(&decision, &context);
    return decision;
  }

  ShardRounds rounds;
};

// A fake ShardAgreement, which records the calls of Agree, AgreeAgain and Report. AgreeAgain returns `own` if it is an
// error, otherwise `agreed`.
class RecordingShards final : public ShardAgreement {
 public:
  Status PriorFailure() const override { return {}; }
  void Agree(StepDecision* /*decision*/, StepContext* /*context*/) override { calls.emplace_back("agree"); }
  Status AgreeAgain(Status own) override {
    calls.push_back("agree again: " + own.message());
    return own.ok() ? agreed.Copy() : std::move(own);
  }
  void AgreeOnExport(StepDecision* /*decision*/) override {}
  void Report(const Status& failure) override { calls.push_back("report: " + failure.message()); }

  std::vector<std::string> calls;
  Status agreed;
};

// A replica that exchanges the updates of parameters with the shapes `shapes`.
struct SharingReplica : ContextFixture {
  SharingReplica(const std::shared_ptr<Communicator>& comm, const OptionKeys& keys,
                 const std::vector<std::vector<int64_t>>& shapes)
      : ContextFixture(keys, shapes, ReplicaPlacement(comm->rank(), comm->world())) {
    Ok(ReplicaExchange::Create(inputs(), comm, comm->TakeOptimizerId(), {}, backend().get(), &exchange));
    Ok(List());
  }
  Status Share(int64_t bucket, const StepDecision& decision = {}) {
    return exchange->Share(bucket, decision, context, &shards);
  }

  std::unique_ptr<ReplicaExchange> exchange;
  RecordingShards shards;
};

}  // namespace shampoo
