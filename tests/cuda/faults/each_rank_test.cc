// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// In ranks_test.cc, rank 1 fails. This file repeats tests of ranks_test.cc with each of the remaining ranks as the
// failing rank. Tests of shards run with status_lag=1, the default, and in addition with status_lag=0. Moreover, this
// file has a test in which shampoo_optimizer_create() of a shard rank fails.
#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "tests/cuda/faults/faulty_ranks.h"

namespace shampoo_test {
namespace {

constexpr int kOtherReplicas[] = {0, kReplicas - 1};  // in ranks_test.cc, rank 1 fails

TEST_CASE("each rank except rank 1 fails in turn in a step or in create of replicas: no rank waits forever" *
          doctest::test_suite("long")) {
  for (const int faulty : kOtherReplicas) {
    for (FaultyJob job : kReplicaJobs) {
      job.faulty = faulty;
      FailInStepOfReplicas(job);
    }
    for (const HostComms& on_host : {HostComms{}, kAllOnHost}) {
      Endings endings = FailInCreate({"local", kReplicas, 1, false, "0", on_host}, faulty);
      CHECK(endings[SHAMPOO_E_NOMEM] > 20);
      CHECK(endings[SHAMPOO_E_DEVICE] > 20);
      CHECK((endings[SHAMPOO_E_COMM] > 20) == !on_host.of_replicas);
      CHECK(endings[SHAMPOO_OK] > 0);
    }
  }
}

// Calls run(job) for each kind of shards, with one copy of the model and with two. For each kind and number of copies,
// each rank except rank 1 fails in one job with status_lag=1. In one further job, status_lag is 0, and the index of the
// kind selects the rank that fails.
template <typename Run>
void ForEachShard(const Run& run) {
  int next = 0;
  // ForEachKindOfShards() calls the lambda twice for each kind, so next / 2 is the index of the kind.
  ForEachKindOfShards([&](const RankKind& kind) {
    for (int faulty = 0; faulty < kind.world(); ++faulty) {
      if (faulty != 1) run(FaultyJob{kind, faulty});
    }
    run(FaultyJob{kind, next / 2 % kind.world(), "0"});
    ++next;
  });
}

TEST_CASE("each rank except rank 1 fails in turn in a step of shards: no rank waits forever" *
          doctest::test_suite("long")) {
  ForEachShard([](const FaultyJob& job) {
    if (job.kind.copies > 1 || !job.kind.on_host.of_shards) FailInStepOfShards(job);
  });
}

TEST_CASE("a collective of each rank except rank 1 fails in turn in a step of shards: no rank waits forever" *
          doctest::test_suite("long")) {
  ForEachShard(FailCollectivesOfShards);
}

TEST_CASE("if create of a shard rank fails, create or the first step of the other ranks fails, and nothing is leaked" *
          doctest::test_suite("long")) {
  for (const RankKind& kind : {RankKind{"local", 1, 2}, {"local", 2, 2}, {"gather", 1, 2}, {"gather", 2, 2}}) {
    for (int faulty = 0; faulty < kind.world(); ++faulty) {
      INFO(NameOf(kind), ", faulty rank ", faulty);
      Endings endings = FailInCreate(kind, faulty);
      CHECK(endings[SHAMPOO_E_NOMEM] > 10);
      CHECK(endings[SHAMPOO_E_DEVICE] > 10);
      CHECK(endings[SHAMPOO_E_COMM] > 10);
      CHECK(endings[SHAMPOO_OK] > 0);
    }
  }
}

}  // namespace
}  // namespace shampoo_test
