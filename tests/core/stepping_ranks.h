// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Ranks that make whole steps on the CPU: a single rank, or several replica ranks or shard ranks, each on a thread.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "core/step/gathered_step.h"
#include "core/step/host_step.h"
#include "tests/core/ranks_on_threads.h"
#include "tests/core/status_check.h"
#include "tests/core/step_fixture.h"
#include "tests/core/thread_ranks.h"

namespace shampoo {

// Keys with which all states affect the results from the first step on.
inline const OptionKeys kAllStates =
    "max_preconditioner_dim=4 momentum=0.5 precondition_frequency=2 use_merge_dims=false lr=0.1 weight_decay=0.01";
inline const std::vector<std::vector<int64_t>> kSteppedShapes = {{4, 6}, {5}};

// Sets the gradients of consecutive elements. The values differ between neighboring elements and between steps.
// first: the index of the first of these elements, counted over all elements of all whole parameters.
inline void FillGradient(int step, int64_t first, std::vector<float>* gradient) {
  for (size_t i = 0; i < gradient->size(); ++i) {
    const auto at = static_cast<float>(first) + static_cast<float>(i);
    (*gradient)[i] = 0.25F * at - 2 + static_cast<float>(step);
  }
}

// Sets the gradients of both parameters of kSteppedShapes. The first parameter has 24 elements.
inline void FillGradients(int step, StepFixture* fixture) {
  FillGradient(step, 0, &fixture->gradients[0]);
  FillGradient(step, 24, &fixture->gradients[1]);
}

// A single rank that has all of the parameters.
struct Alone : StepFixture {
  explicit Alone(const OptionKeys& keys = kAllStates, const std::vector<std::vector<int64_t>>& shapes = kSteppedShapes)
      : StepFixture(keys, shapes), step(inputs(), backend(), std::make_unique<NoShards>()) {
    state().Observe(&step);
  }
  Status Step() { return step.Step({}, nullptr); }

  LocalStep step;
};

// Ranks that make their steps at the same time, each on its own thread.
template <typename Rank>
struct SteppingRanks : RanksOnThreads<Rank> {
  using RanksOnThreads<Rank>::RanksOnThreads;
  std::vector<Status> Step() {
    return this->Run([](int, Rank& rank) { return rank.step->Step({}, nullptr); });
  }
  void StepOk() { CheckAllOk(Step()); }
};

// A replica that makes steps together with other replicas.
struct ReplicaRank : StepFixture {
  ReplicaRank(const std::shared_ptr<Communicator>& comm, const OptionKeys& keys)
      : StepFixture(kAllStates + keys, kSteppedShapes, ReplicaPlacement(comm->rank(), comm->world())) {
    std::unique_ptr<ReplicaExchange> exchange;
    Ok(ReplicaExchange::Create(inputs(), comm, comm->TakeOptimizerId(), {}, backend().get(), &exchange));
    step = std::make_unique<ReplicatedStep>(inputs(), backend(), std::make_unique<NoShards>(), std::move(exchange));
    state().Observe(step.get());
  }

  std::unique_ptr<ReplicatedStep> step;
};

// A shard rank that holds a chunk of the elements of each parameter.
struct ShardRank : StepFixture {
  ShardRank(const std::shared_ptr<Communicator>& comm, const OptionKeys& keys, Dtype copy = Dtype::kF32)
      : StepFixture(SetupOf(*comm, kAllStates + keys, copy)) {
    comm->SetRankName("shard rank");
    const int32_t number = comm->TakeOptimizerId();
    auto rounds = std::make_unique<ShardRounds>(inputs(), comm, number, BoundScalars::kOnHost);
    if (plan().gathers) {
      std::unique_ptr<BlockGather> gather;
      Ok(BlockGather::Create(plan(), comm, number, {}, backend().get(), &gather));
      auto replica = std::make_unique<SingleReplica>(gather->arrived());
      step =
          std::make_unique<GatheredStep>(inputs(), backend(), std::move(rounds), std::move(gather), std::move(replica));
    } else {
      step = std::make_unique<LocalStep>(inputs(), backend(), std::move(rounds));
    }
    state().Observe(step.get());
  }
  static Setup SetupOf(const Communicator& comm, const OptionKeys& keys, Dtype copy = Dtype::kF32) {
    Placement placement;
    placement.shard_rank = comm.rank();
    placement.shard_world = comm.world();
    return {.keys = keys, .params = ShardsOf(comm.rank(), comm.world(), copy), .placement = placement};
  }
  // Returns descriptions of the shards of `rank`. Each shard is a chunk of a flattened parameter. The chunks of a
  // parameter have equal sizes, except that the last ones may be smaller.
  static std::vector<ParamDesc> ShardsOf(int rank, int world, Dtype copy) {
    std::vector<ParamDesc> params = Describe(kSteppedShapes);
    for (ParamDesc& desc : params) {
      const int64_t elements = desc.shape.Product();
      const int64_t chunk = (elements + world - 1) / world;
      desc.copy_dtype = copy;
      desc.form = ShardForm::kFlat;
      desc.flat_offset = std::min(elements, rank * chunk);
      desc.flat_count = std::min(chunk, elements - desc.flat_offset);
    }
    return params;
  }
  int64_t FirstElementOf(size_t param) const { return plan().params[param].desc.flat_offset; }
  void Fill(int number_of_step) {
    FillGradient(number_of_step, FirstElementOf(0), &gradients[0]);
    FillGradient(number_of_step, 24 + FirstElementOf(1), &gradients[1]);
  }
  // Returns whether this rank's parameters equal the same elements of the whole parameters.
  bool Holds(const std::vector<std::vector<float>>& whole) const {
    for (size_t p = 0; p < whole.size(); ++p) {
      const auto first = whole[p].begin() + FirstElementOf(p);
      if (!std::equal(params[p].begin(), params[p].end(), first)) return false;
    }
    return true;
  }

  std::unique_ptr<HostStep> step;
};

}  // namespace shampoo
