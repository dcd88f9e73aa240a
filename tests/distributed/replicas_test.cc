// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests replicas: ranks that hold the same parameters. Each block has one of the replicas as its owner.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/capture.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

RankSpec MixedSpec(const Keys& more = {}) {
  return {.keys =
              "max_preconditioner_dim=8 precondition_frequency=2 grafting=adam beta2=0.99 epsilon=1e-6 momentum=0.9 "
              "weight_decay=0.1 lr=0.01" +
              more,
          .groups = {"lr=0.1 grafting=sgd weight_decay_type=coupled weight_decay=0.01"},
          .params = {
              {"matrix", {20, 13}}, {"vector", {17}, 1}, {"tensor", {3, 5, 4}}, {"scalar", {}, 1}, {"empty", {0, 4}}}};
}

// Returns the parameters after `steps` steps on one rank.
std::vector<std::vector<float>> OneRank(const RankSpec& spec, uint64_t steps) {
  Rank rank(spec);
  RequireOk(rank);
  Fill(1, &rank.w);
  RunStepsWithMissingGradients(&rank, 1, steps);
  return rank.w;
}

TEST_CASE("any number of ranks gives results bit-identical to those of one rank") {
  const std::vector<std::vector<float>> expected = OneRank(MixedSpec(), 7);
  for (const Keys& keys : Combinations("communicate=updates|params comm_bucket_bytes=0|2000|1 balance=bytes|cost")) {
    for (const int world : {1, 2, 3, 4, 8, 40}) {
      CAPTURE_ALL(keys, world);
      Grid job(MixedSpec(keys), world, 1);
      RequireStart(&job);
      RunStepsWithMissingGradients(&job, 1, 7);
      CHECK(job.AllHold(expected));
    }
  }
}

TEST_CASE(
    "with a narrow communication_dtype, all ranks have equal parameters, which differ from those of one rank only by "
    "rounding errors") {
  const std::vector<std::vector<float>> expected = OneRank(MixedSpec(), 1);
  std::vector<std::vector<float>> start = expected;
  Fill(1, &start);
  struct Narrow {
    const char* name;
    double rounding;  // half a unit in the last place of the number 1
  };
  for (const Narrow& narrow : {Narrow{"bf16", 1.0 / 256}, Narrow{"f16", 1.0 / 2048}}) {
    for (const char* const communicate : {"updates", "params"}) {
      CAPTURE_ALL(narrow.name, communicate);
      Grid job(MixedSpec({{"communicate", communicate}, {"communication_dtype", narrow.name}}), 3, 1);
      RequireStart(&job);
      RunStepsWithMissingGradients(&job, 1, 1);
      CHECK(job.AllHold(job[0].w));
      CHECK_FALSE(job.AllHold(expected));
      for (size_t p = 0; p < expected.size(); ++p) {
        for (size_t i = 0; i < expected[p].size(); ++i) {
          const double sent = communicate == std::string("updates") ? expected[p][i] - start[p][i] : expected[p][i];
          const double bound = narrow.rounding * std::fabs(sent) + 1e-6;
          CHECK(std::fabs(static_cast<double>(job[0].w[p][i]) - static_cast<double>(expected[p][i])) <= bound);
        }
      }
    }
  }
}

TEST_CASE("a step makes one exchange if comm_bucket_bytes is 0, otherwise several, and sends the predicted bytes") {
  for (const char* const bucket : {"0", "2000"}) {
    CAPTURE(bucket);
    Grid job(MixedSpec({{"comm_bucket_bytes", bucket}}), 4, 1);
    RequireStart(&job);
    job.comm().ResetCounts();
    RunStepsWithMissingGradients(&job, 1, 3);
    for (int rank = 0; rank < 4; ++rank) {
      if (bucket == std::string("0")) CHECK(job.comm().calls(rank) == 3);
      if (bucket != std::string("0")) CHECK(job.comm().calls(rank) > 3);
      CHECK(job.comm().bytes_sent(rank) == 3 * job[rank].PlanBytes("comm", rank));
    }
  }
}

TEST_CASE("a skipped step copies the state from the input arena to the output arena") {
  Grid job(MixedSpec("on_nonfinite=skip_step"), 2, 1);
  RequireCreate(&job);
  struct Arenas {
    std::vector<char> in, out;
  };
  std::vector<Arenas> arenas(2);
  const auto aligned = [](std::vector<char>& memory) {
    return memory.data() + (256 - reinterpret_cast<uintptr_t>(memory.data()) % 256);
  };
  for (int rank = 0; rank < 2; ++rank) {
    const auto bytes = static_cast<size_t>(job[rank].PlanBytes("state", rank));
    Arenas& own = arenas[static_cast<size_t>(rank)];
    own.in.assign(bytes + 256, 0);
    own.out.assign(bytes + 256, 17);
    REQUIRE(shampoo_optimizer_bind_state(job[rank].optimizer, aligned(own.in), aligned(own.out)) == SHAMPOO_OK);
    job[rank].g[0][3] = NAN;
  }
  RequireStep(&job);
  for (int rank = 0; rank < 2; ++rank) {
    Arenas& own = arenas[static_cast<size_t>(rank)];
    CHECK(std::equal(aligned(own.in), aligned(own.in) + job[rank].PlanBytes("state", rank), aligned(own.out)));
    CHECK(job[rank].Stat("skipped_steps") == 1);
  }
}

TEST_CASE("a wrong argument on one rank fails the call on all ranks, and no rank waits forever") {
  Grid refused(MixedSpec(), 3, 1);
  refused.spec(1).device_id = 1;  // on the CPU, only 0 is valid; on GPUs, ranks may have different ids
  refused.Create();
  CheckFailed(&refused, SHAMPOO_E_INVALID);
  CHECK_MESSAGE(refused[0].error.starts_with("rank 1: device_id is 1"), refused[0].error);
  Grid job(MixedSpec(), 3, 1);
  RequireStart(&job);
  RunStepsWithMissingGradients(&job, 1, 2);
  const std::vector<std::vector<float>> before = job[0].w;
  job[2].stream = &job;
  job.Step();
  CheckFailed(&job, SHAMPOO_E_INVALID);
  CHECK_MESSAGE(job[0].error.starts_with("rank 2: stream is not NULL"), job[0].error);
  CHECK(job.AllHold(before));
  job[2].stream = nullptr;
  RequireStep(&job);
}

TEST_CASE("if two optimizers share a communicator and ranks step them in different orders, the steps fail") {
  ThreadComm comm(2);
  std::vector<shampoo_comm_ops> ops = {comm.OpsOf(0), comm.OpsOf(1)};
  std::vector<shampoo_status> statuses(2);
  std::vector<std::string> errors(2);
  OnEveryRank(2, [&](int rank) {
    shampoo_comm* shared = nullptr;
    statuses[static_cast<size_t>(rank)] = shampoo_comm_from_ops(&shared, &ops[static_cast<size_t>(rank)]);
    RankSpec spec = MixedSpec();
    spec.replica_rank = rank;
    spec.replica_world = 2;
    spec.replica_comm = shared;
    Rank first(spec);
    Rank second(spec);
    Rank& own = rank == 0 ? first : second;
    own.Step();
    statuses[static_cast<size_t>(rank)] = own.status;
    errors[static_cast<size_t>(rank)] = own.error;
    shampoo_comm_destroy(shared);
  });
  for (const shampoo_status status : statuses) CHECK(status == SHAMPOO_E_COMM);
  CHECK_MESSAGE(
      Has(errors[0], "exchange 0 of a step of optimizer 1, and rank 0 is at exchange 0 of a step of optimizer 0"),
      errors[0]);
}

TEST_CASE("a communicator is released when its only optimizer is destroyed") {
  ThreadComm comm(1);
  const shampoo_comm_ops ops = comm.OpsOf(0);
  RankSpec spec = MixedSpec();
  spec.replica_ops = &ops;
  {
    Rank rank(spec);
    RequireOk(rank);
    Fill(2, &rank.g);
    RequireStep(&rank);
    CHECK(comm.released() == 0);
  }
  CHECK(comm.released() == 1);
}

TEST_CASE("a flipped bit in a parameter of one replica is detected within as many steps as verify_replicas says") {
  for (const int every : {1, 3}) {
    CAPTURE(every);
    Grid job(MixedSpec({{"verify_replicas", std::to_string(every)}}), 3, 1);
    RequireStart(&job);
    RunStepsWithMissingGradients(&job, 1, every == 1 ? 1 : 2);
    auto* const bits = reinterpret_cast<uint32_t*>(&job[1].w[2][7]);
    *bits ^= 1;
    const std::vector<std::vector<float>> before = job[0].w;
    int steps = 0;
    for (; job.All(SHAMPOO_OK) && steps < every; ++steps) job.Step();
    CheckFailed(&job, SHAMPOO_E_STATE, {"parameter \"tensor\" differs between rank 1 and rank 0"});
    if (steps == 1) CHECK(SameBits(before, job[0].w));
  }
}

}  // namespace
}  // namespace shampoo_test
