// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Each call of CUDA and each collective of one rank fails in turn in an export that ranks make together: no rank waits
// forever.
#include <algorithm>
#include <cstring>

#include "tests/cuda/faults/faulty_ranks.h"

namespace shampoo_test {
namespace {

// Calls run(job) for all kinds of shards whose export needs exchanges, with each failing rank.
template <typename Run>
void ForEachExport(bool is_long, const Run& run) {
  int next = 0;
  for (const ShardKind& kind : kShardKinds) {
    for (const int copies : {1, 2}) {
      if (copies == 1 && std::strcmp(kind.mode, "local") == 0) continue;
      const int world = 2 * copies;
      for (int faulty = 0; faulty < world; ++faulty) {
        if (is_long != (faulty != next % world)) continue;
        run(FaultyShards{kind, copies, faulty, is_long && faulty % 2 == 0 ? "0" : "1", true});
      }
      ++next;
    }
  }
}

TEST_CASE("a call of CUDA fails in an export of replicas: all ranks return" * NeedsFake()) {
  int faulty = 0;
  for (ReplicaKind kind : kReplicaKinds) {
    kind.exports = true;
    FailInStepOfReplicas(kind, faulty++ % kReplicas);
  }
}

TEST_CASE("a call of CUDA of each rank fails in an export of replicas" * doctest::test_suite("long")) {
  for (ReplicaKind kind : kReplicaKinds) {
    kind.exports = true;
    for (int faulty = 0; faulty < kReplicas; ++faulty) FailInStepOfReplicas(kind, faulty);
  }
}

TEST_CASE("a call of CUDA fails in an export of shards: all shards of all copies return" * NeedsFake()) {
  ForEachExport(false, [](const FaultyShards& job) { FailInStepOfShards(job); });
}

TEST_CASE("a call of CUDA of each rank fails in an export of shards" * doctest::test_suite("long")) {
  ForEachExport(true, [](const FaultyShards& job) { FailInStepOfShards(job); });
}

TEST_CASE("two calls of CUDA fail in an export of shards: all shards of all copies return" *
          doctest::test_suite("long")) {
  for (const int64_t distance : {1, 2, 7}) {
    ForEachExport(false, [&](const FaultyShards& job) {
      if (job.copies == 2) FailInStepOfShards(job, distance);
    });
  }
}

TEST_CASE("a collective fails in an export: all ranks return, and later calls fail on all of them" * NeedsFake()) {
  ForEachExport(false, FailCollectivesOfShards);
}

TEST_CASE("a collective of each rank fails in an export" * doctest::test_suite("long")) {
  ForEachExport(true, FailCollectivesOfShards);
}

}  // namespace
}  // namespace shampoo_test
