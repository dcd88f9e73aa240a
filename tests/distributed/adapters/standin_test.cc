// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The stand-in itself, where tests lean on more than shampoo_nccl.h uses.
#include <doctest/doctest.h>
#include <nccl.h>

#include <cstring>
#include <thread>
#include <vector>

TEST_CASE("ranks with one id find each other") {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclUniqueId other;
  REQUIRE(ncclGetUniqueId(&other) == ncclSuccess);
  CHECK(std::memcmp(&id, &other, sizeof id) != 0);
  std::vector<std::thread> ranks;
  for (int r = 0; r < 3; ++r) {
    ranks.emplace_back([id, r] {
      ncclComm_t comm = nullptr;
      REQUIRE(ncclCommInitRank(&comm, 3, id, r) == ncclSuccess);
      int rank = -1, world = -1;
      CHECK(ncclCommUserRank(comm, &rank) == ncclSuccess);
      CHECK(ncclCommCount(comm, &world) == ncclSuccess);
      CHECK(rank == r);
      CHECK(world == 3);
      const float own[2] = {static_cast<float>(r), 1};
      float sum[2], mean[2];
      CHECK(ncclAllReduce(own, sum, 2, ncclFloat32, ncclSum, comm, nullptr) == ncclSuccess);
      CHECK(sum[0] == 3);
      CHECK(sum[1] == 3);
      CHECK(ncclAllReduce(own, mean, 2, ncclFloat32, ncclAvg, comm, nullptr) == ncclSuccess);
      CHECK(mean[0] == 1);
      CHECK(mean[1] == 1);
      const double parts[3] = {1, 10, 100};
      double part = 0;
      CHECK(ncclReduceScatter(parts, &part, 1, ncclFloat64, ncclSum, comm, nullptr) == ncclSuccess);
      CHECK(part == 3 * parts[r]);
      CHECK(ncclCommDestroy(comm) == ncclSuccess);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST_CASE("one thread manages all ranks in groups of calls") {
  ncclComm_t comms[2];
  REQUIRE(ncclCommInitAll(comms, 2, nullptr) == ncclSuccess);
  int sent[2] = {5, 7}, first[2][2], second[2][2];
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int r = 0; r < 2; ++r) {
    CHECK(ncclAllGather(&sent[r], first[r], 1, ncclInt32, comms[r], nullptr) == ncclSuccess);
    CHECK(ncclAllGather(&sent[r], second[r], 1, ncclInt32, comms[r], nullptr) == ncclSuccess);
  }
  CHECK(ncclGroupEnd() == ncclSuccess);
  for (int r = 0; r < 2; ++r) {
    CHECK(first[r][0] == 5);
    CHECK(first[r][1] == 7);
    CHECK(second[r][1] == 7);
    ncclCommDestroy(comms[r]);
  }
}
