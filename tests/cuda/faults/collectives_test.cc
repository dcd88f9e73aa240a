// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Each collective of create, save and load fails in turn on one rank: no rank waits forever, nothing is leaked, and the
// optimizers of a failed save or load can still be used.
#include <utility>

#include "tests/core/temporary_directory.h"
#include "tests/cuda/faults/faulty_ranks.h"
#include "tests/cuda/tools/staged_comm.h"

namespace shampoo_test {
namespace {

// Makes call number `call` of create fail on a rank, over the communicator of its shards or of its copies. Returns the
// number of calls of a create that succeeds.
int64_t FailCollectiveOfCreate(const CreatingJob& job, int faulty, bool of_shards, bool takes_part, int64_t call) {
  CAPTURE(job.copies);
  CAPTURE(job.shards);
  CAPTURE(std::string(job.mode));
  CAPTURE(job.on_host.of_replicas);
  CAPTURE(faulty);
  CAPTURE(of_shards);
  CAPTURE(takes_part);
  CAPTURE(call);
  const Stage stage;
  DeviceRanks ranks(SpecOfRanks({{"shard_mode", job.mode}}), job.copies, job.shards, nullptr, false, job.on_host);
  ranks.FillParams(1);
  ranks.FillGradients(1);
  ThreadComm& comm = ranks.CommOf(faulty, of_shards);
  const int faulty_in_comm = (of_shards ? ranks.shard_ops(faulty) : ranks.replica_ops(faulty))->rank;
  const int64_t calls = comm.calls(faulty_in_comm);  // the constructor has created optimizers
  FailCollective(&comm, faulty_in_comm, calls + call, takes_part);
  ranks.OnEvery([&](int rank, Model* model) {
    shampoo_optimizer_destroy(std::exchange(model->optimizer, nullptr));
    return ranks.CreateAgain(rank, model->plan.get());
  });
  CHECK(ranks.status(faulty) == SHAMPOO_E_COMM);
  CHECK(Says(ranks.text(faulty), "of the communicator returned 7"));
  std::vector<shampoo_status> created;
  for (int rank = 0; rank < ranks.world(); ++rank) {
    created.push_back(ranks.status(rank));
    CAPTURE(ranks.text(rank));
    // The other ranks create their optimizers only if the faulty rank has taken part in the last collective.
    if (rank != faulty && (job.copies == 1 || job.shards == 1)) {
      CHECK(created.back() == (takes_part && call == calls ? SHAMPOO_OK : SHAMPOO_E_COMM));
    }
    CHECK((created.back() == SHAMPOO_OK || created.back() == SHAMPOO_E_COMM));
  }
  ranks.OnEvery([&](int rank, Model* model) {
    return created[static_cast<size_t>(rank)] == SHAMPOO_OK ? model->TryStep() : SHAMPOO_E_COMM;
  });
  for (int rank = 0; rank < ranks.world(); ++rank) CHECK(ranks.status(rank) == SHAMPOO_E_COMM);
  return calls;
}

TEST_CASE("a collective of create fails: create or the first step of all ranks fails, and nothing is leaked" *
          doctest::test_suite("long")) {
  for (const CreatingJob& job : {CreatingJob{kReplicas, 1},
                                 {kReplicas, 1, "local", kOnHost},
                                 {1, 2},
                                 {1, 2, "gather"},
                                 {2, 2},
                                 {2, 2, "gather"},
                                 {2, 2, "gather", kOnHost}}) {
    for (int faulty = 0; faulty < job.copies * job.shards; ++faulty) {
      for (const bool of_shards : {false, true}) {
        if (of_shards ? job.shards == 1 : job.copies == 1) continue;
        for (const bool takes_part : {false, true}) {
          int64_t call = 1;
          while (call < FailCollectiveOfCreate(job, faulty, of_shards, takes_part, call)) ++call;
          CHECK(call > 1);
        }
      }
    }
  }
}

// A job whose ranks save and load checkpoints over a communicator of all ranks.
struct SavingJob : DeviceRanks {
  SavingJob(int copies, int shards, const char* mode)
      : DeviceRanks(SpecOfRanks({{"shard_mode", mode}}), copies, shards), directory(folder / "checkpoints") {}
  // Saves or loads. prepare(comm): called before, with the communicator of all ranks.
  template <typename Prepare>
  void Run(bool saves, const Prepare& prepare) {
    StagedComm comm(world(), fake_cuda_check_collective);
    comm.host().patience = std::chrono::seconds(20);
    std::vector<shampoo_comm_ops> ops;
    for (int rank = 0; rank < world(); ++rank) ops.push_back(comm.OpsOf(rank, true));
    prepare(&comm.host());
    OnEvery([&](int rank, Model* model) {
      shampoo_comm* all = nullptr;
      Must(shampoo_comm_from_ops(&all, &ops[static_cast<size_t>(rank)]));
      const auto run = saves ? shampoo_save : shampoo_load;
      const shampoo_status status = run(&model->optimizer, 1, all, directory.c_str(), model->stream);
      shampoo_comm_destroy(all);  // does not change the error message
      return status;
    });
    calls = comm.host().calls(0);
    CHECK(comm.host().timeouts() == 0);
  }
  void Run(bool saves) {
    Run(saves, [](ThreadComm*) {});
    REQUIRE(DifferencesFrom(SHAMPOO_OK) == "");
  }
  const shampoo::TemporaryDirectory folder;
  const std::string directory;
  int64_t calls = 0;  // collectives of the last save or load
};

// Makes collective number `call` of a save or load fail on a rank. Returns the number of collectives of a save or load
// that succeeds.
int64_t FailCollectiveOfCheckpoint(int copies, int shards, const char* mode, bool saves, int faulty, bool takes_part,
                                   int64_t call) {
  CAPTURE(copies);
  CAPTURE(shards);
  CAPTURE(std::string(mode));
  CAPTURE(saves);
  CAPTURE(faulty);
  CAPTURE(takes_part);
  CAPTURE(call);
  const Stage stage;
  SavingJob job(copies, shards, mode);
  job.FillParams(1);
  job.Step(1);
  job.Run(true);
  if (!saves) job.Run(false);
  const int64_t calls = job.calls;
  job.Step(2);
  job.Run(saves, [&](ThreadComm* comm) { FailCollective(comm, faulty, call, takes_part); });
  for (int rank = 0; rank < job.world(); ++rank) {
    CAPTURE(rank);
    CAPTURE(job.text(rank));
    const bool has_finished = rank != faulty && takes_part && call == calls;
    CHECK(job.status(rank) == (has_finished ? SHAMPOO_OK : SHAMPOO_E_COMM));
  }
  CHECK(Says(job.text(faulty), "of the communicator returned 7"));
  if (saves) {
    for (int rank = 0; rank < job.world(); ++rank) CHECK(job[rank].State("group.0/step")[0] == 2);
    job.Step(3);
    CHECK(job.DifferencesFrom(SHAMPOO_OK) == "");
  }
  // The checkpoint of the save that failed may be complete.
  job.Run(false);
  const double step = job[0].State("group.0/step")[0];
  CHECK((step == 1 || (saves && step == 2)));
  for (int rank = 0; rank < job.world(); ++rank) CHECK(job[rank].State("group.0/step")[0] == step);
  job.Step(4);
  CHECK(job.DifferencesFrom(SHAMPOO_OK) == "");
  return calls;
}

TEST_CASE("a collective of save or load fails: all ranks return an error, and a later load succeeds" *
          doctest::test_suite("long")) {
  struct Layout {
    int copies, shards;
    const char* mode;
  };
  for (const Layout& layout : {Layout{kReplicas, 1, "local"}, {1, 2, "gather"}, {2, 2, "local"}}) {
    for (const bool saves : {true, false}) {
      for (const int faulty : {0, layout.copies * layout.shards - 1}) {
        for (const bool takes_part : {false, true}) {
          int64_t call = 1;
          const auto fail = [&] {
            return FailCollectiveOfCheckpoint(layout.copies, layout.shards, layout.mode, saves, faulty, takes_part,
                                              call);
          };
          while (call < fail()) ++call;
          CHECK(call > 3);
        }
      }
    }
  }
}

}  // namespace
}  // namespace shampoo_test
