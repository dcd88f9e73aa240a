// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests in which each call of CUDA and each collective of one rank fails in turn, while all ranks export averages. They
// check that no rank waits forever.
#include <algorithm>

#include "tests/cuda/faults/faulty_ranks.h"

namespace shampoo_test {
namespace {

// Calls run(job) for all kinds of shards whose export needs exchanges. If is_long is false, each kind has one job, and
// the index of the kind selects the rank that fails. If is_long is true, each kind has a job for each remaining rank.
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

TEST_CASE("if a call of CUDA fails in an export of replicas, no rank waits forever" * NeedsFake()) {
  int faulty = 0;
  for (const FaultyJob& job : kReplicaJobs) FailInStepOfReplicas({job.kind, faulty++ % kReplicas, job.lag, true});
}

TEST_CASE("if a call of CUDA fails on each rank in turn in an export of replicas, no rank waits forever" *
          doctest::test_suite("long")) {
  for (const FaultyJob& job : kReplicaJobs) {
    for (int faulty = 0; faulty < kReplicas; ++faulty) FailInStepOfReplicas({job.kind, faulty, job.lag, true});
  }
}

TEST_CASE("if a call of CUDA fails in an export of shards, no rank waits forever" * NeedsFake()) {
  ForEachExport(false, [](const FaultyJob& job) { FailInStepOfShards(job); });
}

TEST_CASE("if a call of CUDA fails in an export of shards on a rank that the short tier omits, no rank waits forever" *
          doctest::test_suite("long")) {
  ForEachExport(true, [](const FaultyJob& job) { FailInStepOfShards(job); });
}

TEST_CASE("if two calls of CUDA fail in an export of shards, no rank waits forever" * doctest::test_suite("long")) {
  for (const int64_t distance : {1, 2, 7}) {
    ForEachExport(false, [&](const FaultyJob& job) {
      if (job.kind.copies == 2) FailInStepOfShards(job, distance);
    });
  }
}

TEST_CASE("if a collective fails in an export, no rank waits forever, and later calls fail on all ranks" *
          NeedsFake()) {
  ForEachExport(false, FailCollectivesOfShards);
}

TEST_CASE("if a collective fails in an export on a rank that the short tier omits, no rank waits forever" *
          doctest::test_suite("long")) {
  ForEachExport(true, FailCollectivesOfShards);
}

}  // namespace
}  // namespace shampoo_test
