// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests in which each collective of create, save and load fails in turn on one rank. They check that no rank waits
// forever, that nothing is leaked, and that the optimizers can still be used after a failed save or load.
#include <utility>

#include "tests/core/temporary_directory.h"
#include "tests/cuda/faults/faulty_ranks.h"
#include "tests/cuda/tools/staged_comm.h"

namespace shampoo_test {
namespace {

// Makes collective number `call` of create fail on the rank `faulty`. If of_shards is true, `call` counts only
// collectives among the shards of a replica, otherwise only collectives among the replicas of a shard. For takes_part,
// see FailCollective(). Returns the number of such collectives in a create that succeeds.
int64_t FailCollectiveOfCreate(const RankKind& kind, int faulty, bool of_shards, bool takes_part, int64_t call) {
  INFO(NameOf(kind), ", faulty rank ", faulty, ", collective ", call, ", of shards ", of_shards, ", takes part ",
       takes_part);
  const Stage stage;
  DeviceRanks ranks(SpecOfRanks({}), kind);
  ranks.FillGradients(1);
  ThreadComm& comm = ranks.CommOf(faulty, of_shards);
  const int faulty_in_comm = (of_shards ? ranks.shard_ops(faulty) : ranks.replica_ops(faulty))->rank;
  const int64_t calls = comm.calls(faulty_in_comm);  // collectives in the constructor, which has created optimizers
  FailCollective(&comm, faulty_in_comm, calls + call, takes_part);
  ranks.OnEvery([&](int rank, Model* model) {
    shampoo_optimizer_destroy(std::exchange(model->optimizer, nullptr));
    return ranks.CreateAgain(rank, model->plan.get());
  });
  CHECK(ranks.status(faulty) == SHAMPOO_E_COMM);
  CHECK(Says(ranks.text(faulty), "of the communicator returned 7"));
  for (int rank = 0; rank < ranks.world(); ++rank) {
    const shampoo_status status = ranks.status(rank);
    CAPTURE(ranks.text(rank));
    // If each rank has only one communicator, the other ranks succeed only if the failed collective is the last one,
    // and the faulty rank has taken part in it.
    if (rank != faulty && (kind.copies == 1 || kind.shards == 1)) {
      CHECK(status == (takes_part && call == calls ? SHAMPOO_OK : SHAMPOO_E_COMM));
    }
    CHECK((status == SHAMPOO_OK || status == SHAMPOO_E_COMM));
  }
  CheckThatStepsFail(&ranks);
  return calls;
}

TEST_CASE("if a collective of create fails, create or the first step fails on all ranks, and nothing is leaked" *
          doctest::test_suite("long")) {
  for (const RankKind& kind : {RankKind{"local", kReplicas, 1},
                               {"local", kReplicas, 1, false, "0", kAllOnHost},
                               {"local", 1, 2},
                               {"gather", 1, 2},
                               {"local", 2, 2},
                               {"gather", 2, 2},
                               {"gather", 2, 2, false, "0", kAllOnHost}}) {
    for (int faulty = 0; faulty < kind.world(); ++faulty) {
      for (const bool of_shards : {false, true}) {
        if (of_shards ? kind.shards == 1 : kind.copies == 1) continue;
        for (const bool takes_part : {false, true}) {
          int64_t call = 1;
          while (call < FailCollectiveOfCreate(kind, faulty, of_shards, takes_part, call)) ++call;
          CHECK(call > 1);
        }
      }
    }
  }
}

// Makes collective number `call` of a save or a load fail on the rank `faulty`. For takes_part, see FailCollective().
// Returns the number of collectives in a save or a load that succeeds.
int64_t FailCollectiveOfCheckpoint(const RankKind& kind, bool saves, int faulty, bool takes_part, int64_t call) {
  INFO(NameOf(kind), ", faulty rank ", faulty, ", collective ", call, ", saves ", saves, ", takes part ", takes_part);
  const Stage stage;
  const shampoo::TemporaryDirectory folder;
  const std::string directory = folder / "checkpoints";
  DeviceRanks ranks(SpecOfRanks({}), kind);
  ranks.Train(1, 1);
  ranks.Save(directory);
  const int64_t calls = ranks.TryToSaveOrLoad(saves, directory);
  REQUIRE(ranks.DifferencesFrom(SHAMPOO_OK) == "");
  ranks.Train(2, 2);
  ranks.TryToSaveOrLoad(saves, directory, [&](ThreadComm* comm) { FailCollective(comm, faulty, call, takes_part); });
  for (int rank = 0; rank < ranks.world(); ++rank) {
    INFO("rank ", rank, ": ", ranks.text(rank));
    const bool has_finished = rank != faulty && takes_part && call == calls;
    CHECK(ranks.status(rank) == (has_finished ? SHAMPOO_OK : SHAMPOO_E_COMM));
  }
  CHECK(Says(ranks.text(faulty), "of the communicator returned 7"));
  if (saves) {
    for (const Model* model : ranks.models()) CHECK(model->State("group.0/step")[0] == 2);
    ranks.Train(3, 3);
  }
  // The failed save may have written a complete checkpoint, of step 2.
  ranks.Load(directory);
  const double step = ranks[0].State("group.0/step")[0];
  CHECK((step == 1 || (saves && step == 2)));
  for (const Model* model : ranks.models()) CHECK(model->State("group.0/step")[0] == step);
  ranks.Train(4, 4);
  return calls;
}

TEST_CASE("if a collective of save or load fails, no rank waits forever, and a later load succeeds" *
          doctest::test_suite("long")) {
  for (const RankKind& kind : {RankKind{"local", kReplicas, 1}, {"gather", 1, 2}, {"local", 2, 2}}) {
    for (const bool saves : {true, false}) {
      for (const int faulty : {0, kind.world() - 1}) {
        for (const bool takes_part : {false, true}) {
          int64_t call = 1;
          while (call < FailCollectiveOfCheckpoint(kind, saves, faulty, takes_part, call)) ++call;
          CHECK(call > 3);
        }
      }
    }
  }
}

}  // namespace
}  // namespace shampoo_test
