// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Runs jobs in which one rank's calls of CUDA or its collectives fail, and checks that no rank waits forever.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/cuda/tools/device_ranks.h"
#include "tests/distributed/thread_comm.h"

namespace shampoo_test {

constexpr int kReplicas = 3;  // the number of replicas in kReplicaJobs and in most other jobs without shards

// The number of calls that returned each status. Each function below selects the ranks whose calls it counts.
using Endings = std::map<shampoo_status, int>;

// A job in which one rank fails in a step or in an export.
struct FaultyJob {
  RankKind kind;
  int faulty;             // the rank that fails
  const char* lag = "1";  // value of the key status_lag
  bool exports = false;   // the ranks export averages instead of making a step
};

constexpr FaultyJob kReplicaJobs[] = {{{"local", kReplicas, 1}, 1, "0"},
                                      {{"local", kReplicas, 1}, 1},
                                      {{"local", kReplicas, 1, false, "0", kAllOnHost}, 1},
                                      {{"local", kReplicas, 1, false, "256"}, 1}};

// How two shards exchange data in a step.
constexpr RankKind kShardKinds[] = {{"local", 1, 2},
                                    {"gather", 1, 2},
                                    {"gather", 1, 2, true},
                                    {"local", 1, 2, false, "0", kAllOnHost},
                                    {"gather", 1, 2, true, "0", kAllOnHost},
                                    {"gather", 1, 2, false, "0", {false, true}},
                                    {"local", 1, 2, false, "256"},
                                    {"gather", 1, 2, true, "256"}};
// Calls run(kind) twice for each element of kShardKinds: with one replica and with two replicas.
template <typename Run>
void ForEachKindOfShards(const Run& run) {
  for (RankKind kind : kShardKinds) {
    for (const int copies : {1, 2}) {
      kind.copies = copies;
      run(kind);
    }
  }
}

// An error because of which all ranks reject a step, even if no call of CUDA fails.
struct RejectedStep {
  shampoo_status status;
  const char* words;                              // part of the error message
  void (*spoil)(DeviceRanks* ranks, int faulty);  // causes the error
};
extern const RejectedStep kRejectedByDevices;  // the gradients of all ranks contain NaN
extern const RejectedStep kRejectedByHost;     // the host of the rank `faulty` reads a negative step counter

// Returns the specification of a model with six parameters, whose roots are refreshed at every second step.
ModelSpec SpecOfRanks(const Keys& more);

bool Says(const std::string& text, const std::string& words);
// Makes collective number `call` of rank number `rank` in *comm return the error 7. If takes_part is true, the rank
// first takes part in the collective. Otherwise it does not take part.
void FailCollective(ThreadComm* comm, int rank, int64_t call, bool takes_part);

// Checks that a step fails on all ranks that have created an optimizer.
void CheckThatStepsFail(DeviceRanks* ranks);

// Each of the following functions runs a job for n = 1, 2, ... In each run, call number n of CUDA or collective number
// n of one rank fails. The function ends when that rank makes fewer than n calls or collectives.

// Makes calls of CUDA fail in a step or in an export of replicas. If the faulty rank can report its error, all ranks
// must return that error and make the next step.
void FailInStepOfReplicas(const FaultyJob& job);
// Makes calls of CUDA fail in a step or in an export of shards. If distance is not 0, call number n + distance of the
// faulty rank also fails.
void FailInStepOfShards(const FaultyJob& job, int64_t distance = 0);
// Makes calls of CUDA fail in a step that all ranks reject for another reason. An earlier step was also rejected,
// because the hyper-parameters of the ranks differed.
void FailInRejectedStep(const FaultyJob& job, const RejectedStep& step);
// Makes collectives among the shards of a replica fail, and then collectives among the replicas of a shard.
void FailCollectivesOfShards(const FaultyJob& job);
// Makes calls of CUDA fail in create. Returns how often create of the other ranks returned each status.
Endings FailInCreate(const RankKind& kind, int faulty);

}  // namespace shampoo_test
