// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Ranks that hold the same parameters: blocks divided over them, one exchange for each bucket.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/distributed/job.h"

namespace shampoo_test {
namespace {

const Keys kKeys = {{"max_preconditioner_dim", "8"},
                    {"precondition_frequency", "2"},
                    {"grafting", "adam"},
                    {"beta2", "0.99"},
                    {"epsilon", "1e-6"},
                    {"momentum", "0.9"},
                    {"weight_decay", "0.1"},
                    {"lr", "0.01"}};

RankSpec MixedSpec(Keys more = {}) {
  RankSpec spec;
  spec.keys = kKeys;
  spec.keys.insert(spec.keys.end(), more.begin(), more.end());
  spec.groups = {{{"lr", "0.1"}, {"grafting", "sgd"}, {"weight_decay_type", "coupled"}, {"weight_decay", "0.01"}}};
  spec.params = {
      {"matrix", {20, 13}}, {"vector", {17}, 1}, {"tensor", {3, 5, 4}}, {"scalar", {}, 1}, {"empty", {0, 4}}};
  return spec;
}

// The parameters after some steps on one rank, for comparison.
std::vector<std::vector<float>> OneRank(const RankSpec& spec, int steps) {
  Rank rank(spec);
  REQUIRE_MESSAGE(rank.status == SHAMPOO_OK, rank.error);
  Fill(1, &rank.w);
  for (int t = 1; t <= steps; ++t) {
    Fill(100 + static_cast<uint64_t>(t), &rank.g);
    rank.has_grad[1] = t % 3 != 0;
    rank.Step();
    REQUIRE_MESSAGE(rank.status == SHAMPOO_OK, rank.error);
  }
  return rank.w;
}

void RunSteps(Job* job, int steps) {
  job->FillParams(1);
  for (int t = 1; t <= steps; ++t) {
    job->FillGradients(100 + static_cast<uint64_t>(t));
    for (int rank = 0; rank < job->world(); ++rank) (*job)[rank].has_grad[1] = t % 3 != 0;
    job->Step();
    for (int rank = 0; rank < job->world(); ++rank) {
      REQUIRE_MESSAGE((*job)[rank].status == SHAMPOO_OK, (*job)[rank].error);
    }
  }
}

void MustCreate(Job* job) {
  job->Create();
  for (int rank = 0; rank < job->world(); ++rank) {
    REQUIRE_MESSAGE((*job)[rank].status == SHAMPOO_OK, (*job)[rank].error);
  }
}

TEST_CASE("any number of ranks gives the bits of one") {
  const std::vector<std::vector<float>> expected = OneRank(MixedSpec(), 7);
  for (const char* const communicate : {"updates", "params"}) {
    for (const char* const bucket : {"0", "2000", "1"}) {
      for (const char* const balance : {"bytes", "cost"}) {
        for (const int world : {1, 2, 3, 4, 8, 40}) {
          CAPTURE(communicate);
          CAPTURE(bucket);
          CAPTURE(balance);
          CAPTURE(world);
          Job job(MixedSpec({{"communicate", communicate}, {"comm_bucket_bytes", bucket}, {"balance", balance}}),
                  world);
          MustCreate(&job);
          RunSteps(&job, 7);
          CHECK(job.AllHold(expected));
        }
      }
    }
  }
}

TEST_CASE("with a narrow communication dtype ranks hold the same bits, within its rounding of one rank") {
  const std::vector<std::vector<float>> expected = OneRank(MixedSpec(), 1);
  std::vector<std::vector<float>> start = expected;
  Fill(1, &start);
  struct Narrow {
    const char* name;
    double rounding;  // half a unit in the last place
  };
  for (const Narrow& narrow : {Narrow{"bf16", 1.0 / 256}, Narrow{"f16", 1.0 / 2048}}) {
    for (const char* const communicate : {"updates", "params"}) {
      CAPTURE(narrow.name);
      CAPTURE(communicate);
      Job job(MixedSpec({{"communicate", communicate}, {"communication_dtype", narrow.name}}), 3);
      MustCreate(&job);
      RunSteps(&job, 1);
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

TEST_CASE("a step makes one exchange for each bucket, of the bytes that the plan foretold") {
  for (const char* const bucket : {"0", "2000"}) {
    CAPTURE(bucket);
    Job job(MixedSpec({{"comm_bucket_bytes", bucket}}), 4);
    MustCreate(&job);
    job.comm.ResetCounts();
    RunSteps(&job, 3);
    for (int rank = 0; rank < 4; ++rank) {
      if (bucket == std::string("0")) CHECK(job.comm.calls(rank) == 3);
      if (bucket != std::string("0")) CHECK(job.comm.calls(rank) > 3);
      CHECK(job.comm.bytes_sent(rank) == 3 * job[rank].PlanBytes("comm", rank));
    }
  }
}

TEST_CASE("communicators are released with their last user") {
  ThreadComm comm(1);
  const shampoo_comm_ops ops = comm.OpsOf(0);
  RankSpec spec = MixedSpec();
  spec.replica_ops = &ops;
  {
    const Rank rank(spec);
    REQUIRE_MESSAGE(rank.status == SHAMPOO_OK, rank.error);
    CHECK(comm.released() == 0);
  }
  CHECK(comm.released() == 1);
}

TEST_CASE("a flipped bit in a replica is found within verify_replicas steps") {
  for (const int every : {1, 3}) {
    CAPTURE(every);
    Job job(MixedSpec({{"verify_replicas", std::to_string(every)}}), 3);
    MustCreate(&job);
    RunSteps(&job, every == 1 ? 1 : 2);
    auto* const bits = reinterpret_cast<uint32_t*>(&job[1].w[2][7]);
    *bits ^= 1;
    const std::vector<std::vector<float>> before = job[0].w;
    int steps = 0;
    for (; job.All(SHAMPOO_OK) && steps < every; ++steps) job.Step();
    CHECK(job.All(SHAMPOO_E_STATE));
    CHECK(job[0].error.find("parameter \"tensor\" has other bits on rank 1 than on rank 0") != std::string::npos);
    if (steps == 1) CHECK(SameBits(before, job[0].w));
  }
}

}  // namespace
}  // namespace shampoo_test
