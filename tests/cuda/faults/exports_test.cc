// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests in which each call of CUDA and each collective of one rank fails in turn, while all ranks export averages. They
// check that no rank waits forever.
#include <algorithm>

#include "tests/cuda/faults/faulty_ranks.h"

namespace shampoo_test {
namespace {

// Calls run(job) for all kinds of shards whose export needs exchanges. If is_long is false, each kind has one job. The
// rank that fails in it varies with the kind. If is_long is true, each kind has a job for each other rank.
template <typename Run>
void ForEachExport(bool is_long, const Run& run) {
  int next = 0;
  ForEachKindOfShards([&](const RankKind& kind) {
    if (kind.copies == 1 && !kind.gathers()) return;
    for (int faulty = 0; faulty < kind.world(); ++faulty) {
      if (is_long != (faulty != next % kind.world())) continue;
      run(FaultyJob{kind, faulty, is_long && faulty % 2 == 0 ? "0" : "1", true});
    }
    ++next;
  });
}

TEST_CASE("a call of CUDA fails in an export of replicas: all ranks return" * NeedsFake()) {
  int faulty = 0;
  for (const FaultyJob& job : kReplicaJobs) FailInStepOfReplicas({job.kind, faulty++ % kReplicas, job.lag, true});
}

TEST_CASE("on each rank in turn, a call of CUDA fails in an export of replicas: all ranks return" *
          doctest::test_suite("long")) {
  for (const FaultyJob& job : kReplicaJobs) {
    for (int faulty = 0; faulty < kReplicas; ++faulty) FailInStepOfReplicas({job.kind, faulty, job.lag, true});
  }
}

TEST_CASE("a call of CUDA fails in an export of shards: all shards of all replicas return" * NeedsFake()) {
  ForEachExport(false, [](const FaultyJob& job) { FailInStepOfShards(job); });
}

TEST_CASE("on each rank that the short test omits, a call of CUDA fails in an export of shards: all shards return" *
          doctest::test_suite("long")) {
  ForEachExport(true, [](const FaultyJob& job) { FailInStepOfShards(job); });
}

TEST_CASE("two calls of CUDA fail in an export of shards: all shards of all replicas return" *
          doctest::test_suite("long")) {
  for (const int64_t distance : {1, 2, 7}) {
    ForEachExport(false, [&](const FaultyJob& job) {
      if (job.kind.copies == 2) FailInStepOfShards(job, distance);
    });
  }
}

TEST_CASE("a collective fails in an export: all ranks return, and later calls fail on all of them" * NeedsFake()) {
  ForEachExport(false, FailCollectivesOfShards);
}

TEST_CASE("on each rank that the short test omits, a collective fails in an export: all ranks return" *
          doctest::test_suite("long")) {
  ForEachExport(true, FailCollectivesOfShards);
}

}  // namespace
}  // namespace shampoo_test
