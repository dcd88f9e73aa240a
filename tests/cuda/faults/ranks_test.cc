// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests in which each call of CUDA or each collective of rank 1 fails in turn, while the other ranks make the same
// step. They check that no rank waits forever. In each_rank_test.cc, other ranks fail.
#include <iterator>

#include "tests/cuda/faults/faulty_ranks.h"

namespace shampoo_test {
namespace {

constexpr int kFaulty = 1;

// If a call of CUDA fails before the ranks have agreed to make a step, the rank reports its error in the next exchange.
// If the call fails later, the library aborts the communicator, so that no other rank waits.
TEST_CASE("a rank fails: no rank waits forever, and parameters are those before or after the step" * NeedsFake()) {
  FailInStepOfReplicas(kReplicaJobs[0]);
}

TEST_CASE("a rank fails, with other kinds of exchanges: no rank waits forever" * doctest::test_suite("long")) {
  for (size_t i = 1; i < std::size(kReplicaJobs); ++i) FailInStepOfReplicas(kReplicaJobs[i]);
}

// If a rank fails in a collective, or after the ranks have agreed to make the step, the library aborts all
// communicators of the rank, so that no rank waits.
TEST_CASE("a shard rank fails: no rank waits forever, and later steps fail on all ranks" *
          doctest::test_suite("long")) {
  ForEachKindOfShards([](const RankKind& kind) {
    if (kind.copies > 1 || !kind.on_host.of_shards) FailInStepOfShards({kind, kFaulty});
  });
}

TEST_CASE("two calls of CUDA of a shard rank fail in one step: no rank waits forever" * NeedsFake()) {
  FailInStepOfShards({{"local", 1, 2}, kFaulty}, 1);
}

TEST_CASE("two calls of CUDA of a shard rank fail in one step, with other kinds of exchanges: no rank waits forever" *
          doctest::test_suite("long")) {
  ForEachKindOfShards([](const RankKind& kind) {
    if (kind.copies == 1) return;
    for (const int64_t distance : {1, 2, 7}) FailInStepOfShards({kind, kFaulty}, distance);
  });
}

TEST_CASE("a call of CUDA fails in a step that is rejected for another reason: no rank waits forever" * NeedsFake()) {
  for (const RejectedStep& step : {kRejectedByDevices, kRejectedByHost}) {
    FailInRejectedStep({{"local", 2, 1}, kFaulty}, step);
    FailInRejectedStep({{"gather", 1, 2, true}, kFaulty}, step);
  }
}

TEST_CASE(
    "a call of CUDA fails in a step that is rejected for another reason, with other kinds of exchanges: no rank waits "
    "forever" *
    doctest::test_suite("long")) {
  ForEachKindOfShards([](const RankKind& kind) {
    if (kind.copies == 1 && kind.on_host.of_shards) return;
    for (const RejectedStep& step : {kRejectedByDevices, kRejectedByHost}) {
      FailInRejectedStep({kind, kFaulty, "0"}, step);
    }
  });
}

TEST_CASE("a collective of a shard rank fails: no rank waits forever, and later steps fail on all ranks" *
          NeedsFake()) {
  ForEachKindOfShards([](const RankKind& kind) { FailCollectivesOfShards({kind, kFaulty}); });
}

// The faulty rank needs device memory to report its error to the other ranks. If the allocation of this memory failed,
// or if the other ranks have already created their optimizers, the faulty rank aborts the communicator.
TEST_CASE("if create of a rank fails, create or the first step of the other ranks fails, and nothing is leaked" *
          NeedsFake()) {
  Endings endings = FailInCreate({"local", kReplicas, 1}, kFaulty);
  CHECK(endings[SHAMPOO_E_NOMEM] > 20);
  CHECK(endings[SHAMPOO_E_DEVICE] > 20);
  CHECK(endings[SHAMPOO_E_COMM] > 20);
  CHECK(endings[SHAMPOO_OK] > 6);
}

TEST_CASE(
    "over a communicator of host memory, create of the other ranks succeeds or returns the error of the faulty rank" *
    doctest::test_suite("long")) {
  Endings endings = FailInCreate({"local", kReplicas, 1, false, "0", kAllOnHost}, kFaulty);
  CHECK(endings[SHAMPOO_E_NOMEM] > 20);
  CHECK(endings[SHAMPOO_E_DEVICE] > 20);
  CHECK(endings[SHAMPOO_E_COMM] == 0);
  CHECK(endings[SHAMPOO_OK] > 0);  // the faulty rank may fail after the ranks have agreed that create succeeds
}

}  // namespace
}  // namespace shampoo_test
