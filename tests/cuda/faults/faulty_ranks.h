// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Ranks of a job of which one fails. Each function checks that no rank waits forever.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/cuda/tools/device_ranks.h"
#include "tests/distributed/thread_comm.h"

namespace shampoo_test {

constexpr int kReplicas = 3;  // in the tests without shards

// How often the ranks that did not fail ended with each status.
using Endings = std::map<shampoo_status, int>;

// Ranks of which one fails in a step.
struct FaultyJob {
  RankKind kind;
  int faulty;
  const char* lag = "1";  // status_lag
  bool exports = false;   // the ranks export averages instead of making a step
};

constexpr FaultyJob kReplicaJobs[] = {{{"local", kReplicas, 1}, 1, "0"},
                                      {{"local", kReplicas, 1}, 1},
                                      {{"local", kReplicas, 1, false, "0", kAllOnHost}, 1},
                                      {{"local", kReplicas, 1, false, "256"}, 1}};

// How two shards exchange data in a step. Tests run each kind with one copy of the model and with two copies.
constexpr RankKind kShardKinds[] = {{"local", 1, 2},
                                    {"gather", 1, 2},
                                    {"gather", 1, 2, true},
                                    {"local", 1, 2, false, "0", kAllOnHost},
                                    {"gather", 1, 2, true, "0", kAllOnHost},
                                    {"gather", 1, 2, false, "0", {false, true}},
                                    {"local", 1, 2, false, "256"},
                                    {"gather", 1, 2, true, "256"}};
// Calls run(kind) for kShardKinds with one copy and with two copies.
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
  const char* words;  // in the error
  void (*spoil)(DeviceRanks* ranks, int faulty);
};
extern const RejectedStep kRejectedByDevices;  // gradients of all ranks have NaN
extern const RejectedStep kRejectedByHost;     // the host of the rank `faulty` finds a wrong counter

// Returns the specification of a model with roots at every second step and two parameters for each of three ranks.
ModelSpec SpecOfRanks(const Keys& more);

bool Says(const std::string& text, const std::string& words);
// Makes collective number `call` of a rank of the communicator fail. takes_part: it fails after the rank has taken
// part, otherwise before.
void FailCollective(ThreadComm* comm, int rank, int64_t call, bool takes_part);

// Checks that a step fails on all ranks that have created an optimizer.
void CheckThatStepsFail(DeviceRanks* ranks);

// Each function runs a job for n = 1, 2, ... and makes call number n of CUDA, or collective number n, of one rank fail,
// until the rank makes fewer calls.

// If the rank can report its error, all ranks must return it and continue. Otherwise, no rank may wait forever. The
// ranks make a step or an export.
void FailInStepOfReplicas(const FaultyJob& job);
// distance: call number n + distance of the rank fails, too; 0: no other call fails.
void FailInStepOfShards(const FaultyJob& job, int64_t distance = 0);
// Makes calls fail in a step that all ranks reject for another reason, after an earlier step was rejected because the
// hyper-parameters of the ranks differed.
void FailInRejectedStep(const FaultyJob& job, const RejectedStep& step);
// Makes collectives of the shards of a copy fail, and then collectives of the copies of a shard.
void FailCollectivesOfShards(const FaultyJob& job);
Endings FailInCreate(const RankKind& kind, int faulty);

}  // namespace shampoo_test
