// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Each call of CUDA of rank 1 fails in turn, while the others make the same step: no rank waits forever. In
// each_rank_test.cc other ranks fail.
#include <iterator>

#include "tests/cuda/faults/faulty_ranks.h"

namespace shampoo_test {
namespace {

constexpr int kFaulty = 1;

// If a call of CUDA fails before the ranks have agreed to make a step, the rank reports its error in the next exchange.
// If the call fails later, the library aborts the communicator, which ends the waits of the others.
TEST_CASE("a rank fails: all ranks return, and parameters are those before or after the step" * NeedsFake()) {
  FailInStepOfReplicas(kReplicaKinds[0], kFaulty);
}

TEST_CASE("a rank fails, with other kinds of exchanges" * doctest::test_suite("long")) {
  for (size_t i = 1; i < std::size(kReplicaKinds); ++i) FailInStepOfReplicas(kReplicaKinds[i], kFaulty);
}

// If a rank fails after the decision, or in a collective, the library aborts both of its communicators, so that
// no rank waits.
TEST_CASE("a shard fails: all shards of all copies return, and later steps fail on all of them" *
          doctest::test_suite("long")) {
  for (const ShardKind& kind : kShardKinds) {
    for (const int copies : {1, 2}) {
      if (copies == 1 && kind.on_host.of_shards) continue;
      FailInStepOfShards({kind, copies, kFaulty});
    }
  }
}

TEST_CASE("two calls of a shard fail in one step: all shards return" * NeedsFake()) {
  FailInStepOfShards({{"local", false}, 1, kFaulty}, 1);
}

TEST_CASE("two calls of a shard fail in one step, with other kinds of exchanges" * doctest::test_suite("long")) {
  for (const ShardKind& kind : kShardKinds) {
    for (const int64_t distance : {1, 2, 7}) FailInStepOfShards({kind, 2, kFaulty}, distance);
  }
}

TEST_CASE("a call fails in a step that is rejected for another reason: all ranks return" * NeedsFake()) {
  FailInRejectedStep({{"local", false}, 2, kFaulty}, 1, kRejectedByDevices);
  FailInRejectedStep({{"gather", true}, 1, kFaulty}, 2, kRejectedByDevices);
  FailInRejectedStep({{"local", false}, 2, kFaulty}, 1, kRejectedByHost);
  FailInRejectedStep({{"gather", true}, 1, kFaulty}, 2, kRejectedByHost);
}

TEST_CASE("a call fails in a step that is rejected for another reason, with other kinds of exchanges" *
          doctest::test_suite("long")) {
  for (const ShardKind& kind : kShardKinds) {
    for (const int copies : {1, 2}) {
      if (copies == 1 && kind.on_host.of_shards) continue;
      for (const RejectedStep& step : {kRejectedByDevices, kRejectedByHost}) {
        FailInRejectedStep({kind, copies, kFaulty, "0"}, 2, step);
      }
    }
  }
}

TEST_CASE("a collective of a shard fails: all shards of all copies return, and later steps fail on all of them" *
          NeedsFake()) {
  for (const ShardKind& kind : kShardKinds) {
    for (const int copies : {1, 2}) FailCollectivesOfShards({kind, copies, kFaulty});
  }
}

// The faulty rank needs device memory to report its failure to the others. If it has none, or if the others have
// already created their optimizers, it aborts the communicator.
TEST_CASE("create of a rank fails: create or the first step of the others fails, and nothing is leaked" * NeedsFake()) {
  Endings endings = FailInCreate({.copies = kReplicas, .shards = 1}, kFaulty);
  CHECK(endings[SHAMPOO_E_NOMEM] > 20);
  CHECK(endings[SHAMPOO_E_DEVICE] > 20);
  CHECK(endings[SHAMPOO_E_COMM] > 20);
  CHECK(endings[SHAMPOO_OK] > 6);
}

TEST_CASE("over a communicator of host memory, a rank whose create fails always reports it" *
          doctest::test_suite("long")) {
  Endings endings = FailInCreate({.copies = kReplicas, .shards = 1, .on_host = kOnHost}, kFaulty);
  CHECK(endings[SHAMPOO_E_NOMEM] > 20);
  CHECK(endings[SHAMPOO_E_DEVICE] > 20);
  CHECK(endings[SHAMPOO_E_COMM] == 0);
  CHECK(endings[SHAMPOO_OK] > 0);  // the initialization of the state fails after the ranks have agreed
}

}  // namespace
}  // namespace shampoo_test
