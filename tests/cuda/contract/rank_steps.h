// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tests/cuda/contract/pair.h"
#include "tests/cuda/tools/device_ranks.h"

namespace shampoo_test {

// Errors are reported by the same call or the next one, with one exchange in a step or several, of either kind.
inline const Keys kReporting[] = {{{"status_lag", "0"}},
                                  {{"status_lag", "1"}, {"comm_bucket_bytes", "128"}, {"communicate", "params"}}};
inline bool ReportsLate(const Keys& reporting) { return reporting[0].second == "1"; }

// Blocks of at most 4 x 4, with a learning rate that tests change.
inline ModelSpec SpecOfRanks(const Keys& more) {
  return FiveShapes(Keys{{"max_preconditioner_dim", "4"}, {"lr", "0.25"}} + more);
}

// All ranks have the same parameters, unless they are shards.
inline void CheckAllAgree(DeviceRanks* ranks) {
  REQUIRE(ranks->Unless(SHAMPOO_OK) == "");
  if (ranks->shard_ops(0) == nullptr) REQUIRE(ranks->SameParams());
}

inline void MakeTwoSteps(DeviceRanks* ranks) {
  ranks->FillParams(1);
  ranks->Train(1, 2);
  ranks->Status();
  CheckAllAgree(ranks);
  ranks->FillGradients(3);
}

// Called after two steps. The next step fails on all ranks, and changes no parameter.
inline void CheckAllReject(DeviceRanks* ranks, const Keys& reporting, shampoo_status status,
                           const std::vector<std::string>& words) {
  const auto before = ranks->Params();
  ranks->Step();
  if (ReportsLate(reporting)) {
    CHECK(ranks->Unless(SHAMPOO_OK) == "");
    ranks->Step();
  }
  CHECK(ranks->Unless(status, words) == "");
  CHECK(ranks->Params() == before);
  for (int rank = 0; rank < ranks->world(); ++rank) CHECK((*ranks)[rank].Stat("steps") == 2);
}

// Called after the faulty input was corrected.
inline void CheckTheyContinue(DeviceRanks* ranks) {
  ranks->FillGradients(5);
  for (int i = 0; i < 2; ++i) {
    ranks->Step();
    CHECK(ranks->Unless(SHAMPOO_OK) == "");
  }
  ranks->Status();
  CheckAllAgree(ranks);
  for (int rank = 0; rank < ranks->world(); ++rank) CHECK((*ranks)[rank].Stat("steps") == 4);
}

// A learning rate in device memory must be equal on all ranks. name: of rank 1 in error texts.
inline void CheckBoundRates(DeviceRanks* ranks, const Keys& reporting, const std::string& name) {
  const DeviceBytes memory(static_cast<size_t>(ranks->world()) * sizeof(float));
  auto* const rates = static_cast<float*>(memory.get());
  const auto put = [&](int rank, float rate) {
    MustCuda(cudaMemcpy(rates + rank, &rate, sizeof rate, cudaMemcpyHostToDevice));
  };
  for (int rank = 0; rank < ranks->world(); ++rank) {
    put(rank, 0.25F);
    Must(shampoo_optimizer_bind_scalar((*ranks)[rank].optimizer, 0, "lr", SHAMPOO_F32, rates + rank));
  }
  MakeTwoSteps(ranks);
  put(1, 0.5F);
  CheckAllReject(ranks, reporting, SHAMPOO_E_INVALID, {name + " has a different learning rate"});
  put(1, NAN);
  CheckAllReject(ranks, reporting, SHAMPOO_E_INVALID, {name + ": the scalar bound to group 0", "lr"});
  put(1, 0.25F);
  CheckTheyContinue(ranks);
}

}  // namespace shampoo_test
