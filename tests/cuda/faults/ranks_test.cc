// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Each call of CUDA of rank 1 fails in turn, while the others make the same step: no rank waits forever. In
// each_rank_test.cc other ranks fail.
#include "tests/cuda/faults/faulty_ranks.h"

namespace shampoo_test {
namespace {

constexpr int kFaulty = 1;

// A rank that fails before the exchange of a step does not join it. Its program aborts the communicator, which ends the
// waits of the others.
TEST_CASE(
    "a rank fails and the communicator is aborted: the others return, and parameters are those before or after the "
    "step" *
    doctest::test_suite("long")) {
  for (const ReplicaKind& kind : kReplicaKinds) FailInStepOfReplicas(kind, kFaulty);
}

// If a collective of a rank fails, the library also aborts the other communicator of this rank, so that no rank waits.
// After other failures the program must abort both communicators.
TEST_CASE("a shard fails: all shards of all copies return, and later steps fail on all of them" *
          doctest::test_suite("long")) {
  for (const ShardKind& kind : kShardKinds) {
    for (const int copies : {1, 2}) {
      if (copies == 1 && kind.on_host.of_shards) continue;
      FailInStepOfShards({kind, copies, kFaulty});
    }
  }
}

TEST_CASE("a collective of a shard fails: all shards of all copies return, and later steps fail on all of them" *
          NeedsFake()) {
  for (const ShardKind& kind : kShardKinds) {
    for (const int copies : {1, 2}) FailCollectivesOfShards({kind, copies, kFaulty});
  }
}

// A rank that repeats its step joins the exchange in which the others wait. If the others have already left this
// exchange, all ranks detect that the rank is behind, by its step number or by its exchange number within a step.
TEST_CASE("a rank fails and repeats the step: training continues, or ends on all ranks" * NeedsFake()) {
  for (const ReplicaKind& kind : kRepeatingKinds) RepeatStepOfReplicas(kind, kFaulty);
}

// The faulty rank needs device memory to report its failure to the others. If it has none, or if they already have
// their optimizers, it aborts the communicator.
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
