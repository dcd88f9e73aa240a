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
constexpr HostComms kOnHost{true, true};

// How often the ranks that did not fail ended with each status.
using Endings = std::map<shampoo_status, int>;

// How the replicas exchange updates in a step.
struct ReplicaKind {
  const char* lag;     // status_lag
  const char* bucket;  // comm_bucket_bytes; 0: one exchange in a step
  HostComms on_host = {};
  bool exports = false;  // the ranks export averages instead of making a step
};
constexpr ReplicaKind kReplicaKinds[] = {{"0", "0"}, {"1", "0"}, {"1", "0", kOnHost}, {"1", "256"}};

// How the shards exchange data in a step.
struct ShardKind {
  const char* mode;  // shard_mode
  bool has_all_to_all;
  HostComms on_host = {};
  const char* bucket = "0";  // comm_bucket_bytes
};
constexpr ShardKind kShardKinds[] = {{"local", false},
                                     {"gather", false},
                                     {"gather", true},
                                     {"local", false, kOnHost},
                                     {"gather", true, kOnHost},
                                     {"gather", false, {false, true}},
                                     {"local", false, {}, "256"},
                                     {"gather", true, {}, "256"}};

// One or more copies of a model, each divided into two shards, of which the rank `faulty` fails.
struct FaultyShards {
  ShardKind kind;
  int copies;
  int faulty;
  const char* lag = "1";  // status_lag
  bool exports = false;   // the ranks export averages instead of making a step
};

// Why the ranks reject a step in which no call fails.
struct RejectedStep {
  shampoo_status status;
  const char* words;  // in the error
  void (*spoil)(DeviceRanks* ranks, int faulty);
};
extern const RejectedStep kRejectedByDevices;  // gradients of all ranks have NaN
extern const RejectedStep kRejectedByHost;     // the host of the rank `faulty` finds a wrong counter

// A job that creates its optimizers.
struct CreatingJob {
  int copies;
  int shards;
  const char* mode = "local";  // shard_mode
  HostComms on_host = {};
};

// Returns the specification of a model with roots at every second step and two parameters for each of three ranks.
ModelSpec SpecOfRanks(const Keys& more);

bool Says(const std::string& text, const std::string& words);
// Makes collective number `call` of a rank of the communicator fail. takes_part: after the rank has taken part.
void FailCollective(ThreadComm* comm, int rank, int64_t call, bool takes_part);

// Each function runs a job for n = 1, 2, ... and makes call number n of CUDA, or collective number n, of one rank fail,
// until the rank makes fewer calls.

// If the rank can report its error, all ranks must return it and continue. Otherwise, no rank may wait. The ranks make
// a step or an export.
void FailInStepOfReplicas(const ReplicaKind& kind, int faulty);
// distance: call number n + distance of the rank fails, too; 0: no other call fails.
void FailInStepOfShards(const FaultyShards& job, int64_t distance = 0);
// Makes calls fail in a step that all ranks reject for another reason, after an earlier step was rejected because the
// hyper-parameters of the ranks differed.
void FailInRejectedStep(const FaultyShards& job, int shards, const RejectedStep& step);
// A collective of the shards of a copy fails, and then a collective of the copies of a shard.
void FailCollectivesOfShards(const FaultyShards& job);
Endings FailInCreate(const CreatingJob& job, int faulty);

}  // namespace shampoo_test
