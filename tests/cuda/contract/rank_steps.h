// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tests/cuda/contract/pair.h"
#include "tests/cuda/tools/device_ranks.h"
#include "tests/cuda/tools/stage.h"

namespace shampoo_test {

// Two sets of keys. With the first set, a step that fails returns its own error. With the second set, the call after
// this step returns the error. With the second set, a step also makes several exchanges, and ranks exchange parameters
// instead of updates.
inline const Keys kReporting[] = {"status_lag=0", "status_lag=1 comm_bucket_bytes=128 communicate=params"};

// Returns the specification of a model whose blocks have dims of at most 4. The learning rate is the initial rate of
// BoundRates.
inline ModelSpec SpecOfRanks(const Keys& more) { return FiveShapes(Keys("max_preconditioner_dim=4 lr=0.25") + more); }

// Requires that the last call succeeded on all ranks. If the ranks have no shards, also requires that all ranks have
// the same parameters.
inline void CheckAllAgree(DeviceRanks* ranks) {
  REQUIRE(ranks->DifferencesFrom(SHAMPOO_OK) == "");
  if (ranks->shard_ops(0) == nullptr) REQUIRE(ranks->SameParams());
}

inline void MakeTwoSteps(DeviceRanks* ranks) {
  ranks->Train(1, 2);
  ranks->Status();
  CheckAllAgree(ranks);
  ranks->FillGradients(3);
}

// Checks that the next step fails on all ranks with `status` and a message that contains all words, and that it changes
// no parameter. The ranks must have made two steps.
inline void CheckAllReject(DeviceRanks* ranks, const Keys& reporting, shampoo_status status,
                           const std::vector<std::string>& words) {
  const auto before = ranks->Params();
  ranks->Step();
  if (ReportsLate(reporting)) {
    CHECK(ranks->DifferencesFrom(SHAMPOO_OK) == "");
    ranks->Step();
  }
  CHECK(ranks->DifferencesFrom(status, words) == "");
  CHECK(ranks->Params() == before);
  for (int rank = 0; rank < ranks->world(); ++rank) CHECK((*ranks)[rank].Stat("steps") == 2);
}

// Checks that two more steps succeed on all ranks. The caller must have corrected the faulty input.
inline void CheckTheyContinue(DeviceRanks* ranks) {
  ranks->FillGradients(5);
  for (int i = 0; i < 2; ++i) ranks->CheckStep();
  ranks->Status();
  CheckAllAgree(ranks);
  for (int rank = 0; rank < ranks->world(); ++rank) CHECK((*ranks)[rank].Stat("steps") == 4);
}

// Checks that the shards of each replica have, after four steps, the same parameters as a model without shards.
// tolerance: see DeviceRanks::CheckShardsOf.
inline void CheckShardedSteps(const ModelSpec& spec, const RankKind& kind, double tolerance) {
  const Stage stage;
  Model alone(spec);
  DeviceRanks ranks(spec, kind);
  for (uint64_t t = 1; t <= 4; ++t) {
    alone.FillGradients(t);
    ranks.SetFrom(alone);
    ranks.CheckStep();
    alone.Step();
  }
  ranks.MustSucceed();
  ranks.CheckShardsOf(alone, tolerance);
}

// The learning rates of all ranks, in device memory, each bound to the optimizer of its rank. At first all rates are
// equal.
class BoundRates {
 public:
  explicit BoundRates(DeviceRanks* ranks) : memory_(static_cast<size_t>(ranks->world()) * sizeof(float)) {
    for (int rank = 0; rank < ranks->world(); ++rank) {
      Set(rank, 0.25F);
      Must(shampoo_optimizer_bind_scalar((*ranks)[rank].optimizer, 0, "lr", SHAMPOO_F32, Rates() + rank));
    }
  }
  void Set(int rank, float rate) { MustCuda(cudaMemcpy(Rates() + rank, &rate, sizeof rate, cudaMemcpyHostToDevice)); }

 private:
  float* Rates() { return static_cast<float*>(memory_.get()); }
  DeviceBytes memory_;
};

// Checks that a step fails on all ranks if a learning rate in device memory differs between ranks or is invalid. name:
// the name of rank 1 in error messages.
inline void CheckBoundRates(DeviceRanks* ranks, const Keys& reporting, const std::string& name) {
  BoundRates rates(ranks);
  MakeTwoSteps(ranks);
  rates.Set(1, 0.5F);
  CheckAllReject(ranks, reporting, SHAMPOO_E_INVALID, {name + " has a different learning rate"});
  rates.Set(1, NAN);
  CheckAllReject(ranks, reporting, SHAMPOO_E_INVALID, {name + ": the scalar bound to group 0", "lr"});
  rates.Set(1, 0.25F);
  CheckTheyContinue(ranks);
}

}  // namespace shampoo_test
