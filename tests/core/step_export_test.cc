// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests exports of averages on the CPU by one rank, by replicas, and by shard ranks that gather blocks.
#include <algorithm>

#include "tests/core/stepping_ranks.h"

namespace shampoo {
namespace {

const OptionKeys kWithEma = "weight_ema=0.5";

// Exports the midpoint between each parameter and its average to the memory of the gradients.
Status ExportToGradients(StepStrategy* step, StepFixture* rank, Status caller_status = {}) {
  std::vector<void*> weights;
  for (std::vector<float>& gradient : rank->gradients) weights.push_back(gradient.data());
  return step->Export(std::move(caller_status), 0.5, weights);
}

template <typename Rank>
std::vector<Status> ExportOnAll(SteppingRanks<Rank>* ranks) {
  return ranks->Run([](int, Rank& rank) { return ExportToGradients(rank.step.get(), &rank); });
}

TEST_CASE(
    "an export by replicas, or by shard ranks with shard_mode=gather, is bit-identical to an export by one rank") {
  Alone alone(kAllStates + kWithEma);
  for (const int step : {0, 1}) {
    FillGradients(step, &alone);
    CheckOk(alone.Step());
  }
  CheckOk(ExportToGradients(&alone.step, &alone));
  const float expected = alone.params[1][4] + 0.5F * alone.StateOf("p1/1/ema_offset")[0];
  CHECK(expected != alone.params[1][4]);
  CHECK(alone.gradients[1][4] == expected);
  for (const char* const bucket_bytes : {"0", "1"}) {
    const OptionKeys keys = kWithEma + Cat("comm_bucket_bytes=", bucket_bytes);
    SteppingRanks<ReplicaRank> replicas(2, keys);
    for (const int step : {0, 1}) {
      for (size_t rank = 0; rank < 2; ++rank) FillGradients(step, &replicas[rank]);
      replicas.StepOk();
    }
    CheckAllOk(ExportOnAll(&replicas));
    for (size_t rank = 0; rank < 2; ++rank) CHECK(replicas[rank].gradients == alone.gradients);

    SteppingRanks<ShardRank> shards(3, kGather + keys);
    for (const int step : {0, 1}) {
      for (size_t rank = 0; rank < 3; ++rank) shards[rank].Fill(step);
      shards.StepOk();
    }
    CheckAllOk(ExportOnAll(&shards));
    for (size_t rank = 0; rank < 3; ++rank) {
      ShardRank& shard = shards[rank];
      shard.params = shard.gradients;
      CHECK(shard.Holds(alone.gradients));
    }
  }
}

template <typename Rank>
void CheckErrorOfOneRank(const OptionKeys& keys) {
  SteppingRanks<Rank> two(2, kWithEma + keys);
  std::vector<std::vector<std::vector<float>>> before;
  for (size_t rank = 0; rank < 2; ++rank) {
    for (std::vector<float>& gradient : two[rank].gradients) FillGradient(0, 0, &gradient);
    before.push_back(two[rank].gradients);
    before.push_back(two[rank].params);
  }
  CheckAllFail(two.Run([](int number, Rank& rank) {
    return ExportToGradients(rank.step.get(), &rank, number == 1 ? Invalid("a caller's mistake") : Status());
  }),
               Code::kInvalid, "rank 1: a caller's mistake");
  CheckAllFail(two.Run([](int number, Rank& rank) {
    void* const weights[] = {rank.gradients[0].data(), number == 0 ? rank.params[1].data() : nullptr};
    return rank.step->Export({}, 1, weights);
  }),
               Code::kInvalid, "rank 0: weights[1] overlaps the parameter \"p1\"");
  for (size_t rank = 0; rank < 2; ++rank) {
    CHECK(two[rank].gradients == before[2 * rank]);
    CHECK(two[rank].params == before[2 * rank + 1]);
  }
  two.StepOk();
}

TEST_CASE("an error of one rank in an export is returned by all ranks, and nothing is written") {
  CheckErrorOfOneRank<ReplicaRank>({});
  CheckErrorOfOneRank<ShardRank>(kGather);
}

// Counts the collectives that shard rank 1 makes in `work`. For each of them, runs `work` on two shard ranks that
// gather blocks, while this collective fails on shard rank 1. Checks that each rank returns an error from this run or
// from a second run.
template <typename Work>
void FailEachCollective(const OptionKeys& keys, Work&& work) {
  int64_t calls = 0;
  for (int64_t failing = 0; failing <= calls; ++failing) {  // if failing is 0, the collectives are only counted
    CAPTURE(failing);
    SteppingRanks<ShardRank> shards(2, kGather + keys);
    shards.threads.fails = [&](int rank, int64_t call) {
      if (failing == 0 && rank == 1) calls = call;
      return rank == 1 && call == failing;
    };
    const std::vector<Status> statuses = work(&shards);
    if (failing == 0) continue;
    CheckError(statuses[1], Code::kComm, "all_gather of the communicator returned 2");
    const std::vector<Status> later = work(&shards);
    const std::string of_rank_0 = (statuses[0].ok() ? later[0] : statuses[0]).message();
    // If rank 0 had waited for rank 1 in vain, this message would not name rank 1.
    REQUIRE_MESSAGE(of_rank_0.find("shard rank 1: ") != std::string::npos, of_rank_0);
    CHECK(later[1].code() == Code::kComm);
    for (int rank = 0; rank < 2; ++rank) CHECK(shards.threads.comm(rank)->failed());
  }
  CHECK(calls > 2);
}

TEST_CASE("with shard_mode=gather, if one collective of an export or of a step fails, every rank returns an error") {
  const OptionKeys buckets = "comm_bucket_bytes=1";
  FailEachCollective(kWithEma + buckets, [](SteppingRanks<ShardRank>* shards) { return ExportOnAll(shards); });
  const auto step = [](SteppingRanks<ShardRank>* shards) { return shards->Step(); };
  FailEachCollective(buckets, step);
  const auto step_with_nan = [](SteppingRanks<ShardRank>* shards) {
    (*shards)[0].gradients[0][0] = kNan;
    return shards->Step();
  };
  FailEachCollective(buckets + "on_nonfinite=skip_step", step_with_nan);
}

}  // namespace
}  // namespace shampoo
